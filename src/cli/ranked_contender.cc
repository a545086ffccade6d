// A contender that is one `sumcast bench-worker` per rank: an algorithm of the library, or `wire`.
#include <fmt/format.h>

#include <algorithm>

#include "base/prng.h"
#include "cli/bench_contender.h"
#include "cli/bench_protocol.h"
#include "cli/bench_statistics.h"
#include "cli/bench_worker.h"
#include "runtime/clock.h"

namespace sumcast::cli {
namespace {

constexpr Duration kJoinPatience = 90s;
/// Preparing a case reads all ranks' inputs once on every rank.
constexpr Duration kPreparePatience = 10min;

class RankedContender final : public Contender {
 public:
  RankedContender(const ContenderSpec& spec, BenchSite& site)
      : Contender(spec), site_(site), plan_(site.plan()), lag_(site.plan().flags.seed) {}

  bool has_half(const BenchCase& bench, Half half) const override {
    return half == Half::kInPlace || (!is_wire() && has_out_of_place(bench.collective));
  }
  DatagramShape shape() const override { return {payload_bytes_, !plan_.flags.insecure}; }

  Result<void> start() override;
  Result<void> begin(size_t case_index) override;
  Result<void> turn(Half half, Meter& meter, Tally& tally) override;
  Result<void> end(Tally&) override { return {}; }

 private:
  bool is_wire() const { return spec().kind == ContenderSpec::Kind::kWire; }
  Result<WorkerOptions> common_options();
  Result<void> start_echo(const WorkerOptions& options);
  Result<void> spawn_workers(WorkerOptions options);
  Result<void> tell(size_t rank, const Command& command);
  /// Sends a command to all ranks, then collects a reply of that kind from each.
  Result<std::vector<Reply>> ask_all(const Command& command, Reply::Kind expected,
                                     Duration patience);
  Result<std::vector<Reply>> collect(Reply::Kind expected, Duration patience);
  Error explain(size_t rank, const Error& error);

  BenchSite& site_;
  const BenchPlan& plan_;
  BenchCase bench_;
  lab::Process echo_;
  std::vector<lab::Process> workers_;
  std::vector<uint64_t> retransmits_;  ///< By rank, so far.
  uint32_t payload_bytes_ = 0;
  Prng lag_;
};

Result<WorkerOptions> RankedContender::common_options() {
  const BenchFlags& flags = plan_.flags;
  WorkerOptions options;
  options.role = is_wire() ? "wire" : "context";
  options.algorithm = name_of(spec().algorithm);
  options.check = flags.check != 0;
  options.unalign = flags.unalign;
  options.seed = flags.seed;
  Options& library = options.library;
  library.job = "bench-" + spec().name;
  library.world = flags.workers;
  library.key_file = site_.key_file();
  library.insecure = flags.insecure;
  library.one_rank_per_host = flags.ranks_per_host == 1;  // On loopback all would share one.
  options.ranks_per_host = flags.ranks_per_host;
  library.flows = static_cast<uint16_t>(flags.flows);
  library.window = flags.window;
  library.mtu = flags.mtu;
  library.timeout = plan_.timeout;
  library.faults = {plan_.faults.loss, plan_.faults.duplicate, plan_.faults.reorder,
                    plan_.faults.delay, plan_.faults.seed};
  if (is_wire()) {
    options.peer = site_.cluster().address(lab::Node::aggregator());
    options.port = site_.next_port(static_cast<uint16_t>(flags.workers + 1));
  } else if (spec().needs_daemon() || spec().needs_server()) {
    Result<std::string> address = site_.daemon_address(spec().needs_server());
    if (!address) return fail(address.error());
    library.aggregator = std::move(*address);
  } else {
    library.coordinator =
        fmt::format("{}:{}", site_.cluster().address(lab::Node::of_worker(0)), site_.next_port());
  }
  return options;
}

Result<void> RankedContender::start_echo(const WorkerOptions& options) {
  WorkerOptions echo = options;
  echo.role = "wire-echo";
  lab::SpawnOptions spawning;
  spawning.input = lab::Redirect::pipe();
  spawning.output = lab::Redirect::pipe();
  Result<lab::Process> process =
      site_.cluster().spawn(lab::Node::aggregator(), worker_argv(program_path(), echo), spawning);
  if (!process) return fail(process.error());
  const Result<std::string> line = process->read_line(kJoinPatience);
  if (!line) return fail(line.error());
  const Result<Reply> reply = reply_from_line(*line);
  if (!reply) return fail(reply.error());
  if (reply->kind == Reply::Kind::kError) return fail(ErrorCode::kUnavailable, reply->error);
  echo_ = std::move(*process);
  return {};
}

Result<void> RankedContender::spawn_workers(WorkerOptions options) {
  lab::SpawnOptions spawning;
  spawning.input = lab::Redirect::pipe();
  spawning.output = lab::Redirect::pipe();
  for (uint32_t rank = 0; rank < plan_.flags.workers; ++rank) {
    options.library.rank = rank;
    // Another stream of faults on every rank, the same ones in every run.
    options.library.faults.seed = plan_.faults.seed * 1000 + rank + 1;
    Result<lab::Process> process = site_.cluster().spawn(
        lab::Node::of_worker(plan_.host_of(rank)), worker_argv(program_path(), options), spawning);
    if (!process) return fail(process.error());
    workers_.push_back(std::move(*process));
  }
  return {};
}

Result<void> RankedContender::start() {
  const Result<WorkerOptions> options = common_options();
  if (!options) return fail(options.error());
  if (is_wire()) {
    if (Result<void> started = start_echo(*options); !started) return started;
  }
  if (Result<void> spawned = spawn_workers(*options); !spawned) return spawned;
  retransmits_.assign(workers_.size(), 0);
  const auto hellos = collect(Reply::Kind::kHello, kJoinPatience);
  if (!hellos) return fail(hellos.error());
  payload_bytes_ = hellos->front().payload_bytes;
  return {};
}

Result<void> RankedContender::begin(size_t case_index) {
  bench_ = plan_.cases[case_index];
  Command command;
  command.kind = Command::Kind::kCase;
  command.bench = bench_;
  const auto ready = ask_all(command, Reply::Kind::kReady, kPreparePatience);
  if (!ready) return fail(ready.error());
  return {};
}

Result<void> RankedContender::turn(Half half, Meter& meter, Tally& tally) {
  Command fill;
  fill.kind = Command::Kind::kFill;
  fill.in_place = half == Half::kInPlace;
  if (auto ready = ask_all(fill, Reply::Kind::kReady, kPreparePatience); !ready) {
    return fail(ready.error());
  }
  if (Result<void> started = meter.start(); !started) return started;
  Command go;
  go.kind = Command::Kind::kGo;
  // Time for all ranks to read the line: they share few processors.
  const Instant first = runtime::monotonic_now() + 2ms + workers_.size() * 100us;
  std::vector<Duration> lags(workers_.size());  // Behind the first; with --skew.
  for (size_t rank = 0; rank < workers_.size(); ++rank) {
    if (plan_.skew > Duration{0}) {
      lags[rank] = Duration(lag_.below(static_cast<uint64_t>(plan_.skew.count())));
    }
    go.start = first + lags[rank];
    if (Result<void> told = tell(rank, go); !told) return told;
  }
  const Duration last = *std::ranges::max_element(lags);
  const Duration patience = last + plan_.timeout * bench_.operations + 10s;
  const auto done = collect(Reply::Kind::kDone, patience);
  if (!done) return fail(done.error());
  if (Result<void> stopped = meter.stop(bench_.operations, tally); !stopped) return stopped;

  std::vector<double> times;
  for (size_t rank = 0; rank < done->size(); ++rank) {
    const Reply& reply = (*done)[rank];
    const Duration waited = last - lags[rank];  // For the last rank to begin.
    const Duration time = plan_.flags.cpu_time ? reply.cpu : reply.wall - waited;
    times.push_back(static_cast<double>(time.count()) / 1e3 / bench_.operations);
    tally.retransmits = tally.retransmits.value_or(0) + reply.retransmits - retransmits_[rank];
    retransmits_[rank] = reply.retransmits;
  }
  const auto index = static_cast<size_t>(half);
  tally.times_us[index].push_back(over_ranks(times, plan_.flags.average));
  if (plan_.flags.check == 0 || is_wire()) return {};
  const auto checks = ask_all(Command{}, Reply::Kind::kWrong, kPreparePatience);
  if (!checks) return fail(checks.error());
  tally.checked = true;
  for (const Reply& reply : *checks) tally.wrong[index] += reply.wrong;
  return {};
}

Result<void> RankedContender::tell(size_t rank, const Command& command) {
  Result<void> written = workers_[rank].write_input(to_line(command) + "\n");
  if (!written) return fail(explain(rank, written.error()));
  return {};
}

Result<std::vector<Reply>> RankedContender::ask_all(const Command& command, Reply::Kind expected,
                                                    Duration patience) {
  for (size_t rank = 0; rank < workers_.size(); ++rank) {
    if (Result<void> told = tell(rank, command); !told) return fail(told.error());
  }
  return collect(expected, patience);
}

Result<std::vector<Reply>> RankedContender::collect(Reply::Kind expected, Duration patience) {
  const Instant deadline = runtime::monotonic_now() + patience;
  std::vector<Reply> replies;
  for (size_t rank = 0; rank < workers_.size(); ++rank) {
    const Result<std::string> line =
        workers_[rank].read_line(std::max<Duration>(deadline - runtime::monotonic_now(), 0s));
    if (!line) return fail(explain(rank, line.error()));
    Result<Reply> reply = reply_from_line(*line);
    if (!reply) return fail(reply.error());
    if (reply->kind != expected) {
      return fail(explain(
          rank, {ErrorCode::kAborted,
                 reply->kind == Reply::Kind::kError ? reply->error : "unexpected: " + *line}));
    }
    replies.push_back(std::move(*reply));
  }
  return replies;
}

Error RankedContender::explain(size_t rank, const Error& error) {
  if (const auto failure = site_.daemon_failure()) return *failure;
  if (const auto status = workers_[rank].poll(); status && status->signal != 0) {
    return {ErrorCode::kAborted,
            fmt::format("{}: rank {} ended with {}", spec().name, rank, status->describe())};
  }
  return error.within(fmt::format("{}: rank {}", spec().name, rank));
}

}  // namespace

std::unique_ptr<Contender> make_ranked_contender(const ContenderSpec& spec, BenchSite& site) {
  return std::make_unique<RankedContender>(spec, site);
}

}  // namespace sumcast::cli
