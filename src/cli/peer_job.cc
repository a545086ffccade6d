#include "cli/peer_job.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "lab/mpi_launch.h"
#include "runtime/clock.h"

namespace sumcast::cli {
namespace {

constexpr Duration kExitPatience = 10s;

std::vector<std::string> peer_argv(const std::string& program, const PeerRun& run) {
  std::vector<std::string> argv = {program,
                                   "--sizes",
                                   fmt::format("{}", fmt::join(run.sizes, ",")),
                                   "--iters",
                                   std::to_string(run.iterations),
                                   "--warmup",
                                   std::to_string(run.warmup),
                                   "--collective",
                                   std::string(name_of(run.collective)),
                                   "--check",
                                   run.check ? "1" : "0",
                                   "--algorithm",
                                   run.algorithm};
  if (run.operations > 1) argv.insert(argv.end(), {"--block", std::to_string(run.operations)});
  if (run.step) argv.emplace_back("--step");
  return argv;
}

lab::MpiKind mpi_kind(PeerKind peer) {
  return peer == PeerKind::kOpenMpi ? lab::MpiKind::kOpenMpi : lab::MpiKind::kMpich;
}

}  // namespace

Result<PeerResult> peer_result_from_line(std::string_view line) {
  const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  const auto is = [&](const char* key, auto test) { return json.contains(key) && test(json[key]); };
  const auto is_number = [](const nlohmann::json& value) { return value.is_number_unsigned(); };
  const auto is_bool = [](const nlohmann::json& value) { return value.is_boolean(); };
  const auto are_times = [](const nlohmann::json& value) {
    return value.is_array() && !value.empty() &&
           std::all_of(value.begin(), value.end(), [](const auto& v) { return v.is_number(); });
  };
  if (!json.is_object() || !is("bytes", is_number) || !is("wrong", is_number) ||
      !is("checked", is_bool) || !is("times_us", are_times)) {
    return fail(ErrorCode::kInternal, fmt::format("a peer said \"{}\"", line));
  }
  return PeerResult{json["bytes"], json["checked"], json["wrong"], json["times_us"]};
}

std::vector<std::string> peer_algorithms(PeerKind peer, Collective collective) {
  if (collective != Collective::kAllReduce) return {"auto"};
  // gloo's own choice is its ring, which is in the list.
  if (peer == PeerKind::kGloo) return {"ring", "bcube", "halving_doubling", "ring_chunked"};
  return lab::mpi_algorithms(mpi_kind(peer));
}

Result<PeerJob> PeerJob::start(BenchSite& site, const PeerRun& run) {
  const Result<std::string> program =
      sibling_program(fmt::format("sumcast-peer-{}", name_of(run.peer)));
  if (!program) return fail(program.error());
  return run.peer == PeerKind::kGloo ? start_gloo(site, run, *program)
                                     : start_mpi(site, run, *program);
}

Result<PeerJob> PeerJob::start_gloo(BenchSite& site, const PeerRun& run,
                                    const std::string& program) {
  Result<ScratchDirectory> meeting = ScratchDirectory::create();
  if (!meeting) return fail(meeting.error());
  std::vector<lab::Process> ranks;
  const uint32_t workers = site.plan().flags.workers;
  for (uint32_t rank = 0; rank < workers; ++rank) {
    const auto node = lab::Node::of_worker(site.plan().host_of(rank));
    std::vector<std::string> argv = peer_argv(program, run);
    argv.insert(argv.end(), {"--rank", std::to_string(rank), "--world", std::to_string(workers),
                             "--root-dir", meeting->path()});
    const bool linked = site.cluster().has_links();
    argv.insert(argv.end(),
                {linked ? "--interface" : "--address",
                 linked ? site.cluster().interface(node) : site.cluster().address(node)});
    lab::SpawnOptions spawning;
    spawning.input = rank == 0 ? lab::Redirect::pipe() : lab::Redirect::null();
    spawning.output = rank == 0 ? lab::Redirect::pipe() : lab::Redirect::null();
    Result<lab::Process> process = site.cluster().spawn(node, argv, spawning);
    if (!process) return fail(process.error());
    ranks.push_back(std::move(*process));
  }
  PeerJob job(run, std::move(ranks));
  job.meeting_.emplace(std::move(*meeting));
  return job;
}

Result<PeerJob> PeerJob::start_mpi(BenchSite& site, const PeerRun& run,
                                   const std::string& program) {
  lab::MpiJob mpi;
  mpi.kind = mpi_kind(run.peer);
  mpi.argv = peer_argv(program, run);
  mpi.algorithm = run.algorithm;
  mpi.ranks_per_host = static_cast<int>(site.plan().flags.ranks_per_host);
  mpi.spawning.input = lab::Redirect::pipe();
  mpi.spawning.output = lab::Redirect::pipe();
  // The launchers talk about their own affairs there, such as lost races with their children.
  mpi.spawning.errors = lab::Redirect::null();
  Result<lab::Process> launcher = lab::spawn_mpi(site.cluster(), mpi);
  if (!launcher) return fail(launcher.error());
  std::vector<lab::Process> processes;
  processes.push_back(std::move(*launcher));
  PeerJob job(run, std::move(processes));
  job.tree_.emplace(job.leader().pid());
  return job;
}

Result<std::string> PeerJob::next_line(Duration patience) {
  const Instant deadline = runtime::monotonic_now() + patience;
  while (true) {
    Result<std::string> line =
        leader().read_line(std::max<Duration>(deadline - runtime::monotonic_now(), 0s));
    if (!line) {
      return fail(line.error().within(fmt::format("{} {}", name_of(run_.peer), run_.algorithm)));
    }
    if (*line == "ready" || line->rfind('{', 0) == 0) return line;
  }
}

Result<std::vector<PeerResult>> PeerJob::finish(Duration patience) {
  std::vector<PeerResult> results;
  while (results.size() < run_.sizes.size()) {
    const Result<std::string> line = next_line(patience);
    if (!line) return fail(line.error());
    Result<PeerResult> result = peer_result_from_line(*line);
    if (!result) return fail(result.error());
    results.push_back(std::move(*result));
  }
  for (lab::Process& process : processes_) (void)process.wait(kExitPatience);
  return results;
}

Result<void> PeerJob::await_ready(Duration patience) {
  const Result<std::string> line = next_line(patience);
  if (!line) return fail(line.error());
  meeting_.reset();  // They have found each other.
  if (*line == "ready") return {};
  return fail(ErrorCode::kInternal, fmt::format("a peer said \"{}\"", *line));
}

Result<void> PeerJob::step(Duration patience) {
  if (Result<void> written = leader().write_input("\n"); !written) return written;
  return await_ready(patience);
}

Result<PeerResult> PeerJob::end_size(bool is_last, Duration patience) {
  if (Result<void> written = leader().write_input("\n"); !written) return fail(written.error());
  const Result<std::string> line = next_line(patience);
  if (!line) return fail(line.error());
  Result<PeerResult> result = peer_result_from_line(*line);
  if (!result || is_last) return result;
  if (Result<void> ready = await_ready(patience); !ready) return fail(ready.error());
  return result;
}

void PeerJob::pause() {
  if (spins() && tree_) tree_->pause();
}

void PeerJob::resume() {
  if (spins() && tree_) tree_->resume();
}

}  // namespace sumcast::cli
