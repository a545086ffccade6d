#include "cli/demo_crew.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>

#include <algorithm>
#include <optional>

#include "cli/demo_member.h"
#include "lab/interrupt.h"
#include "runtime/clock.h"

namespace sumcast::cli {
namespace {

/// Namespaces are ours alone, so any fixed ports will do there.
constexpr uint16_t kDaemonPort = 4711;
constexpr uint16_t kCoordinatorPort = 4712;

constexpr Duration kDaemonStart = 15s;
/// Loading data and joining; the library's own deadline for joining is 60 s and says more.
constexpr Duration kWorkersStart = 90s;
/// After a first failure: the library tells all survivors within 2 s.
constexpr Duration kLastWords = 3s;
constexpr Duration kLeave = 10s;
constexpr Duration kTick = 50ms;

/// A port of `address` that nobody uses right now.
Result<uint16_t> free_port(const std::string& address) {
  const lab::Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in local{};
  local.sin_family = AF_INET;
  socklen_t bytes = sizeof local;
  const bool found = socket && ::inet_pton(AF_INET, address.c_str(), &local.sin_addr) == 1 &&
                     ::bind(socket.get(), reinterpret_cast<sockaddr*>(&local), bytes) == 0 &&
                     ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&local), &bytes) == 0;
  if (!found) return fail(ErrorCode::kSystem, "cannot find a free port on " + address);
  return ntohs(local.sin_port);
}

Result<std::string> endpoint_on(const lab::Cluster& cluster, lab::Node node, uint16_t port) {
  const std::string address = cluster.address(node);
  if (!cluster.has_links()) {
    const Result<uint16_t> found = free_port(address);
    if (!found) return fail(found.error());
    port = *found;
  }
  return fmt::format("{}:{}", address, port);
}

class Crew {
 public:
  Crew(lab::Cluster& cluster, const CrewOptions& options, const DemoMethod& method,
       const StepFn& on_step)
      : cluster_(cluster), options_(options), method_(method), on_step_(on_step) {}

  Result<MethodRun> run(WorkerPlan plan) {
    if (auto placed = place_daemon(plan); !placed) return fail(placed.error());
    if (auto started = start_workers(plan); !started) return fail(started.error());
    if (auto ready = wait_for(Stage::kReady, kWorkersStart); !ready) return fail(ready.error());
    MethodRun outcome;
    const Result<std::vector<uint64_t>> before = sent_bytes();
    if (!before) return fail(before.error());
    for (Member& worker : workers_) {
      // A worker that cannot be written to has died, which the next wait finds and words better.
      static_cast<void>(worker.process.write_input(std::string(kGoLine) + "\n"));
    }
    const Duration silence = std::chrono::milliseconds(plan.timeout_ms) + 30s;
    if (auto trained = wait_for(Stage::kTrained, silence); !trained) return fail(trained.error());
    static_cast<void>(cluster_.drain(2s));  // Best effort: what is queued yet is a few packets.
    const Result<std::vector<uint64_t>> after = sent_bytes();
    if (!after) return fail(after.error());
    for (size_t i = 0; i < after->size(); ++i) {
      outcome.link_bytes.push_back((*after)[i] - (*before)[i]);
    }
    if (auto left = dismiss(); !left) return fail(left.error());
    for (Member& worker : workers_) outcome.workers.push_back(std::move(*worker.result));
    return outcome;
  }

 private:
  /// Starts sumcastd, or names the worker that stands in for it as coordinator.
  Result<void> place_daemon(WorkerPlan& plan) {
    if (method_.daemon == DaemonSite::kNone) {
      auto endpoint = endpoint_on(cluster_, lab::Node::of_worker(0), kCoordinatorPort);
      if (!endpoint) return fail(endpoint.error());
      plan.coordinator = *endpoint;
      return {};
    }
    const lab::Node node =
        method_.daemon == DaemonSite::kServer ? lab::Node::server() : lab::Node::aggregator();
    auto endpoint = endpoint_on(cluster_, node, kDaemonPort);
    if (!endpoint) return fail(endpoint.error());
    plan.aggregator = *endpoint;
    std::vector<std::string> command = options_.daemon;
    for (const std::string& word :
         {std::string("--listen"), *endpoint, std::string("--key-file"), plan.key_file,
          std::string("--http"), std::string("none"), std::string("--json-ready")}) {
      command.push_back(word);
    }
    Result<Member> daemon = start_member(cluster_, node, "sumcastd", command, options_.directory);
    if (!daemon) return fail(daemon.error());
    daemon_ = std::move(*daemon);
    // Whatever its first line says, it is printed when connections are accepted.
    const Result<std::string> ready = daemon_->process.read_line(kDaemonStart);
    if (ready) return {};
    // Its output ends a moment before itself.
    if (ready.error().code == ErrorCode::kUnavailable) {
      static_cast<void>(daemon_->process.wait(2s));
    }
    daemon_->ended = daemon_->process.poll();
    if (lab::ScopedInterrupt::requested()) return fail(ErrorCode::kAborted, "interrupted");
    if (daemon_->ended) return fail(ErrorCode::kUnavailable, daemon_->obituary());
    return fail(ErrorCode::kTimeout, "sumcastd did not become ready: " + ready.error().what);
  }

  Result<void> start_workers(WorkerPlan plan) {
    plan.method = method_.name;
    plan.world = static_cast<uint32_t>(cluster_.options().workers);
    for (plan.rank = 0; plan.rank < plan.world; ++plan.rank) {
      Result<Member> worker =
          start_member(cluster_, lab::Node::of_worker(static_cast<int>(plan.rank)),
                       fmt::format("worker {}", plan.rank), options_.worker, options_.directory);
      if (!worker) return fail(worker.error());
      workers_.push_back(std::move(*worker));
      static_cast<void>(workers_.back().process.write_input(encode(plan) + "\n"));
    }
    return {};
  }

  /// Listens until all workers have reached `stage`, one has failed, or nobody has said anything
  /// for `silence`.
  Result<void> wait_for(Stage stage, Duration silence) {
    heard_ = runtime::monotonic_now();
    for (;;) {
      if (std::ranges::all_of(workers_, [&](const Member& w) { return w.stage >= stage; })) {
        return {};
      }
      listen();
      if (lab::ScopedInterrupt::requested()) return fail(ErrorCode::kAborted, "interrupted");
      if (anybody_troubled()) return fail(diagnose());
      if (runtime::monotonic_now() - heard_ > silence) return fail(nothing_heard(stage, silence));
    }
  }

  /// Waits at most one tick for messages and deaths.
  void listen() {
    std::vector<pollfd> entries;
    for (const Member& worker : workers_) {
      const bool talks = !worker.ended && worker.process.output_fd() >= 0;
      entries.push_back({talks ? worker.process.output_fd() : -1, POLLIN, 0});
    }
    const auto tick_ms = std::chrono::duration_cast<std::chrono::milliseconds>(kTick).count();
    const int readable = ::poll(entries.data(), entries.size(), static_cast<int>(tick_ms));
    for (size_t i = 0; i < entries.size() && readable > 0; ++i) {
      if (entries[i].revents != 0) read_lines(workers_[i]);
    }
    if (daemon_ && !daemon_->ended) daemon_->ended = daemon_->process.poll();
  }

  void read_lines(Member& worker) {
    for (;;) {
      const Result<std::string> line = worker.process.read_line(0s);
      if (line) {
        heard_ = runtime::monotonic_now();
        take(worker, *line);
        continue;
      }
      if (line.error().code == ErrorCode::kTimeout) return;
      // Its output has ended, and so will it.
      Result<lab::ExitStatus> status = worker.process.wait(2s);
      if (!status) worker.process.kill();
      worker.ended = worker.process.poll();
      return;
    }
  }

  void take(Member& worker, const std::string& line) {
    Result<WorkerMessage> message = decode_message(line);
    if (!message) {
      worker.complaint = message.error().what;
    } else if (std::holds_alternative<WorkerReady>(*message)) {
      worker.stage = Stage::kReady;
    } else if (const auto* step = std::get_if<WorkerStep>(&*message)) {
      if (on_step_) on_step_(*step);
    } else if (auto* result = std::get_if<WorkerResult>(&*message)) {
      worker.result = std::move(*result);
      worker.stage = Stage::kTrained;
    } else if (const auto* failed = std::get_if<WorkerFailed>(&*message)) {
      worker.complaint = failed->text;
      if (first_to_complain_ == nullptr) first_to_complain_ = &worker;
    }
  }

  bool anybody_troubled() const {
    return (daemon_ && daemon_->troubled()) || std::ranges::any_of(workers_, &Member::troubled);
  }

  /// Hears the others out and picks the one to blame.
  Error diagnose() {
    const Instant until = runtime::monotonic_now() + kLastWords;
    while (runtime::monotonic_now() < until && !lab::ScopedInterrupt::requested() &&
           !std::ranges::all_of(workers_, &Member::troubled)) {
      listen();
    }
    if (daemon_ && daemon_->troubled()) return {ErrorCode::kAborted, daemon_->obituary()};
    for (const Member& worker : workers_) {
      if (worker.ended && worker.complaint.empty()) return {ErrorCode::kAborted, worker.obituary()};
    }
    if (first_to_complain_ == nullptr) {
      first_to_complain_ = &*std::ranges::find_if(workers_, &Member::troubled);
    }
    return {ErrorCode::kAborted, first_to_complain_->obituary()};
  }

  Error nothing_heard(Stage stage, Duration silence) const {
    const auto late =
        std::ranges::find_if(workers_, [&](const Member& w) { return w.stage < stage; });
    return {ErrorCode::kTimeout,
            fmt::format("{} said nothing for {} s", late->name,
                        std::chrono::duration_cast<std::chrono::seconds>(silence).count())};
  }

  /// Per worker; empty without links.
  Result<std::vector<uint64_t>> sent_bytes() {
    const Result<std::vector<lab::LinkCounters>> links = cluster_.all_counters();
    if (!links) return fail(links.error());
    std::vector<uint64_t> bytes;
    for (size_t i = 0; i < workers_.size() && i < links->size(); ++i) {
      bytes.push_back((*links)[i].up.bytes);
    }
    return bytes;
  }

  /// Lets the workers leave and stops the daemon; a process that does not end well is an error.
  Result<void> dismiss() {
    for (Member& worker : workers_) worker.process.close_input();
    for (Member& worker : workers_) {
      if (auto ended = wait_for_end(worker); !ended) return ended;
    }
    if (!daemon_) return {};
    daemon_->process.send_signal(SIGTERM);
    return wait_for_end(*daemon_);
  }

  Result<void> wait_for_end(Member& member) {
    const Result<lab::ExitStatus> status = member.process.wait(kLeave);
    if (lab::ScopedInterrupt::requested()) return fail(ErrorCode::kAborted, "interrupted");
    if (!status) {
      return fail(ErrorCode::kTimeout,
                  fmt::format("{} did not end when it was told to", member.name));
    }
    member.ended = *status;
    if (!status->ok()) return fail(ErrorCode::kAborted, member.obituary());
    return {};
  }

  lab::Cluster& cluster_;
  const CrewOptions& options_;
  const DemoMethod& method_;
  const StepFn& on_step_;
  std::optional<Member> daemon_;
  std::vector<Member> workers_;  // Complete before anybody points into it.
  const Member* first_to_complain_ = nullptr;
  Instant heard_;
};

}  // namespace

Result<MethodRun> run_method(lab::Cluster& cluster, const CrewOptions& options,
                             const DemoMethod& method, const WorkerPlan& plan,
                             const StepFn& on_step) {
  return Crew(cluster, options, method, on_step).run(plan);
}

}  // namespace sumcast::cli
