// One direction of a cable: a rate, a delay, a finite FIFO queue, and faults.
//
// The queue is not stored, it follows from when the sender will be idle:
// backlog = (idle_at - now) * rate. What would exceed the queue is dropped at the tail. Faults
// happen behind the queue, so that a lost datagram has used its share of the rate.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/datagram.h"
#include "sim/event_queue.h"
#include "sim/fault_plan.h"

namespace sumcast::sim {

struct LinkConfig {
  uint64_t rate_bits_per_second = 0;  ///< 0: no limit, and no queue.
  Duration delay{};                   ///< Propagation.
  uint64_t queue_bytes_max = 1'000'000;
  /// A batch arrives as a whole when its last datagram does, as segmentation offload hands it on;
  /// otherwise each datagram arrives by itself.
  bool keeps_batches = false;
  FaultPlan faults;
};

class Link : public Actor {
 public:
  struct Counters {
    uint64_t sent = 0, bytes = 0, overflowed = 0, lost = 0, doubled = 0, other_life = 0;
  };

  /// `queue` and `sink` must outlive the link.
  Link(const LinkConfig& config, uint64_t seed, EventQueue& queue, Sink& sink)
      : config_(config), faults_(config.faults, seed), queue_(queue), sink_(sink) {}

  /// Sends `batch` in order; takes copies.
  void send(std::span<const Datagram> batch, Instant now);
  void on_event(Instant now, uint64_t what) override;
  const Counters& counters() const { return counters_; }

 private:
  Duration time_on_wire(uint32_t bytes) const;
  bool overflows(uint32_t bytes, Instant now) const;
  void arrive_at(Instant at, std::vector<Datagram> datagrams);

  LinkConfig config_;
  FaultInjector faults_;
  EventQueue& queue_;
  Sink& sink_;
  Instant idle_at_{};
  std::vector<std::vector<Datagram>> flights_;  // By event number; emptied ones are reused.
  std::vector<uint64_t> free_flights_;
  Counters counters_;
};

}  // namespace sumcast::sim
