// An aggregator shard of a simulated group: what the real shard host does around its slot pool.
//
// Completed results go to all members, repeats to the one that needs them, both from two buffers
// per slot (version = phase & 1). Asks are gathered per member and sent as notes at the end of a
// duty cycle.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/slot_pool.h"
#include "sim/datagram.h"
#include "sim/event_queue.h"
#include "sim/exactly_once_checker.h"
#include "sim/link.h"
#include "sim/operation_plan.h"

namespace sumcast::sim {

/// The steps of a shard that a test may break, to see that the checker notices. This class is
/// right; see mutation_test.cc for the wrong ones.
class ShardRules {
 public:
  virtual ~ShardRules() = default;
  virtual bool admits(const wire::Header& header) const { return header.incarnation == 0; }
  /// @param in may be changed: it is what the pool was told.
  virtual core::Verdict judge(core::SlotPool& pool, core::Contribution& in, Instant now) {
    return pool.on_contribution(in, now);
  }
  /// The content of a result that is sent again.
  virtual uint64_t again(uint64_t sum) const { return sum; }
  virtual bool sends_again() const { return true; }
};

struct ShardConfig {
  uint16_t shard = 0;
  core::SlotPoolConfig pool;
  uint32_t batch = 44;
  Duration duty_cycle{};
  uint32_t payload_bytes = 1408;
};

class ShardShell : public Actor {
 public:
  struct Counters {
    uint64_t accepted = 0, completed = 0, duplicate = 0, answered = 0, stale = 0, asks = 0;
    uint64_t probes_heard = 0, gaps_heard = 0, strangers = 0;
  };

  /// All references must outlive the shell. @param downlinks one per member.
  ShardShell(const ShardConfig& config, EventQueue& queue, std::span<Link* const> downlinks,
             ShardRules& rules, ExactlyOnceChecker& checker);

  void on_datagram(const Datagram& datagram, Instant now);
  /// To be called after the last on_datagram() of one instant.
  void on_batch_end(Instant now);
  void on_event(Instant now, uint64_t what) override;

  const Counters& counters() const { return counters_; }

 private:
  void receive(const Datagram& datagram, Instant now);
  void receive_contribution(const Datagram& datagram, Instant now);
  void receive_probes(const Datagram& datagram, Instant now);
  void receive_gaps(const Datagram& datagram);
  void complete(uint16_t slot);
  void post_result(uint16_t slot, uint16_t member, uint64_t sum);
  void send_again(uint16_t slot, uint16_t member);
  void turn(Instant now);
  void flush(Instant now);
  void wake_at(Instant at);
  uint64_t& buffer(uint16_t slot, uint32_t phase) {
    return buffers_[size_t{phase & 1u} * config_.pool.slots + slot];
  }

  ShardConfig config_;
  EventQueue& queue_;
  std::vector<Link*> downlinks_;
  ShardRules& rules_;
  ExactlyOnceChecker& checker_;
  std::vector<std::byte> memory_;
  core::SlotPool pool_;
  std::vector<uint64_t> buffers_;  // [2][slots]
  std::vector<core::Ask> ask_memory_;
  BoundedList<core::Ask> asks_;
  std::vector<Datagram> inbox_;
  std::vector<std::vector<Datagram>> outbox_;  // Per member.
  Instant next_wake_ = Instant::never();
  Counters counters_;
};

}  // namespace sumcast::sim
