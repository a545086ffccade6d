// A worker of a simulated group: what the real engine does around its send windows, with a link
// instead of a socket and the event queue instead of a clock.
//
// One window per shard. After every duty cycle (datagrams received, or a timer) it submits what is
// due, resends what was asked for, fills the windows up to its limit in batches, and sleeps until
// the next deadline.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/rtt.h"
#include "core/send_window.h"
#include "sim/datagram.h"
#include "sim/event_queue.h"
#include "sim/exactly_once_checker.h"
#include "sim/link.h"
#include "sim/operation_plan.h"

namespace sumcast::sim {

/// What a worker adds to the timers of its window.
struct RecoveryPolicy {
  /// The timeout is at least this many smoothed round trips. Where round trips are equal, their
  /// variation says nothing, and the RTO would be due just when results are a moment late.
  double rto_factor = 0;
  /// At the end of the stream (slots lie idle, nothing is ready to be sent) no later result can
  /// show a gap. There, once no result has come for this many smoothed round trips, but at least
  /// `silence_floor`, that is the timeout. 0: never.
  double silence_factor = 0;
  Duration silence_floor = std::chrono::milliseconds(2);
  /// An ask for the phase after the one in flight says that our result was lost: probe for it at
  /// once.
  bool ask_ahead_probes = false;
};

struct WorkerConfig {
  uint16_t member = 0;
  core::SendWindowConfig window;
  core::RttEstimator::Config rtt;
  RecoveryPolicy recovery;
  uint32_t in_flight_max = 65535;  ///< Per shard; what congestion control would give.
  uint32_t batch = 44;             ///< Datagrams per send call.
  Duration duty_cycle{};           ///< Datagrams wait up to this long to be looked at.
  uint32_t payload_bytes = 1408;
};

class WorkerShell : public Actor, public Sink {
 public:
  struct Counters {
    uint64_t repeats = 0, probes = 0, gaps = 0, asks_heard = 0, asks_ignored = 0;
    uint64_t results_duplicate = 0;
  };

  /// All references must outlive the shell. @param submit_at when each operation is called.
  WorkerShell(const WorkerConfig& config, uint16_t shards, std::span<const OperationPlan> plan,
              std::vector<Instant> submit_at, EventQueue& queue, Link& uplink,
              ExactlyOnceChecker& checker);

  void on_datagrams(std::span<const Datagram> datagrams, Instant now) override;
  void on_event(Instant now, uint64_t what) override;

  bool done() const { return submitted_ == plan_.size() && idle(); }
  /// When the last result arrived; unset before that.
  Instant finished_at() const { return finished_at_; }
  const Counters& counters() const { return counters_; }

 private:
  struct Path {  // To one shard.
    Path(const core::SendWindowConfig& config, const core::RttEstimator::Config& rtt_config)
        : memory(core::SendWindow::bytes_needed(config)), window(config, memory), rtt(rtt_config) {}
    std::vector<std::byte> memory;
    core::SendWindow window;
    core::RttEstimator rtt;
    std::vector<uint32_t> operation_by_ticket;
    std::vector<wire::Note> probes;  // Decided while receiving, sent with the next turn.
    Instant last_result_at{};
  };

  bool idle() const;
  Duration timeout(const Path& path) const;
  Duration silence(const Path& path) const;
  Instant next_deadline(const Path& path) const;
  void turn(Instant now);
  void receive(const Datagram& datagram, Instant now);
  void receive_result(const Datagram& datagram, Instant now);
  void receive_asks(const Datagram& datagram);
  void submit_due(Instant now);
  void run_timers(uint16_t shard, Instant now);
  void fill(uint16_t shard, Instant now);
  void send_notes(uint16_t shard, wire::Kind kind, std::span<const wire::Note> notes, Instant now);
  void wake_at(Instant at);

  WorkerConfig config_;
  std::span<const OperationPlan> plan_;
  std::vector<Instant> submit_at_;
  EventQueue& queue_;
  Link& uplink_;
  ExactlyOnceChecker& checker_;
  std::vector<std::unique_ptr<Path>> paths_;
  std::vector<Datagram> inbox_;
  std::vector<core::Outgoing> outgoing_;
  std::vector<core::Want> probes_, gaps_;
  std::vector<Datagram> batch_;
  size_t submitted_ = 0;
  Instant next_wake_ = Instant::never();
  Instant finished_at_{};
  Counters counters_;
};

}  // namespace sumcast::sim
