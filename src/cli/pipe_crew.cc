#include "cli/pipe_crew.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/bench_site.h"
#include "lab/interrupt.h"

namespace sumcast::cli {
namespace {

/// Namespaces are ours alone; on loopback, where only kNone is used, it is below the ephemeral
/// ports.
constexpr uint16_t kPort = 21'650;
constexpr Duration kStartPatience = 60s;
/// What is in flight is bounded by the slots as well, of which a group gets half: as many again as
/// eight flows' buffers hold.
constexpr uint32_t kDelayedSlots = 4096;

Result<lab::Process> start_daemon(const lab::Cluster& cluster, lab::Node node,
                                  const std::string& address, const std::string& key_file,
                                  Duration delay) {
  const Result<std::string> program = sibling_program("sumcastd");
  if (!program) return fail(program.error());
  lab::SpawnOptions spawning;
  spawning.output = lab::Redirect::pipe();
  std::vector<std::string> argv = {*program, "--listen",     address,      "--http",
                                   "none",   "--json-ready", "--key-file", key_file};
  if (delay > Duration{0}) {
    argv.insert(argv.end(), {"--delay", fmt::format("{}ns", delay.count()), "--slots",
                             fmt::format("{}", kDelayedSlots)});
  }
  Result<lab::Process> process = cluster.spawn(node, argv, spawning);
  if (!process) return process;
  if (const auto ready = process->read_line(20s); !ready) {
    return fail(ready.error().within("sumcastd did not start"));
  }
  return process;
}

}  // namespace

Result<std::unique_ptr<PipeCrew>> PipeCrew::start(const lab::Cluster& cluster, PipeSite site,
                                                  const std::string& model,
                                                  const std::string& key_file, Duration delay) {
  std::unique_ptr<PipeCrew> crew(new PipeCrew);
  const auto workers = static_cast<uint32_t>(cluster.options().workers);
  PipeWorkerPlan plan;
  plan.model = model;
  plan.job = fmt::format("bench pipeline {}", model);
  plan.key_file = key_file;
  plan.server = site == PipeSite::kServer;
  plan.async = crew->async_ = site == PipeSite::kAsync;
  plan.world = workers + (plan.async ? 1 : 0);
  plan.delay_ns = delay.count();
  const lab::Node first = plan.async ? lab::Node::server() : lab::Node::of_worker(0);
  if (site == PipeSite::kNone || plan.async) {
    plan.coordinator = fmt::format("{}:{}", cluster.address(first), kPort);
  } else {
    const lab::Node node = plan.server ? lab::Node::server() : lab::Node::aggregator();
    plan.aggregator = fmt::format("{}:{}", cluster.address(node), kPort);
    Result<lab::Process> daemon = start_daemon(cluster, node, plan.aggregator, key_file, delay);
    if (!daemon) return fail(daemon.error());
    crew->daemon_ = std::move(*daemon);
  }
  if (plan.async) {
    if (auto spawned = crew->spawn(cluster, first, plan); !spawned) return fail(spawned.error());
  }
  for (uint32_t worker = 0; worker < workers; ++worker) {
    plan.rank = worker + (plan.async ? 1 : 0);
    const lab::Node node = lab::Node::of_worker(static_cast<int>(worker));
    if (auto spawned = crew->spawn(cluster, node, plan); !spawned) return fail(spawned.error());
  }
  for (size_t rank = 0; rank < crew->workers_.size(); ++rank) {
    const Result<PipeAnswer> hello = crew->answer_of(rank, kStartPatience);
    if (!hello) return fail(hello.error());
  }
  return crew;
}

Result<void> PipeCrew::spawn(const lab::Cluster& cluster, lab::Node node,
                             const PipeWorkerPlan& plan) {
  lab::SpawnOptions spawning;
  spawning.input = lab::Redirect::pipe();
  spawning.output = lab::Redirect::pipe();
  Result<lab::Process> worker = cluster.spawn(node, {program_path(), "pipe-worker"}, spawning);
  if (!worker) return fail(worker.error());
  workers_.push_back(std::move(*worker));
  return workers_.back().write_input(encode(plan) + "\n");
}

Result<PipeAnswer> PipeCrew::answer_of(size_t rank, Duration patience) {
  const auto blame = [&](const Error& error) {
    if (lab::ScopedInterrupt::requested()) return fail(ErrorCode::kAborted, "interrupted");
    if (async_ && rank == 0) return fail(error.within("asynchronous server"));
    return fail(error.within(fmt::format("worker {}", rank - (async_ ? 1 : 0))));
  };
  const Result<std::string> line = workers_[rank].read_line(patience);
  if (!line) return blame(line.error());
  Result<PipeAnswer> answer = decode_pipe_answer(*line);
  if (!answer) return blame(answer.error());
  if (!answer->error.empty()) return blame({ErrorCode::kAborted, answer->error});
  return answer;
}

Result<std::vector<PipeAnswer>> PipeCrew::perform(const PipeTask& task, Duration patience) {
  if (lab::ScopedInterrupt::requested()) return fail(ErrorCode::kAborted, "interrupted");
  for (lab::Process& worker : workers_) {
    // One that cannot be written to has died; its missing answer says so in better words.
    static_cast<void>(worker.write_input(encode(task) + "\n"));
  }
  std::vector<PipeAnswer> answers;
  for (size_t rank = 0; rank < workers_.size(); ++rank) {
    Result<PipeAnswer> answer = answer_of(rank, patience);
    if (!answer) return fail(answer.error());
    if (!async_ || rank > 0) answers.push_back(std::move(*answer));
  }
  return answers;
}

}  // namespace sumcast::cli
