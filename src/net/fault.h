// A bad network, on demand: loses, doubles, reorders and delays datagrams by plan.
//
// It stands between the receive path and the protocol, after a batch was split, so that each
// datagram has a fate of its own; a fault per batch of 44 would be another network. It does not
// know what a datagram means, nor that it is used in a test: `--loss` on a daemon is the same
// stage.
//
// Every random number comes from the plan's seed, one datagram after another: the same datagrams
// admitted in the same order at the same instants have the same fates. A datagram that passes is
// handed on where it lies; only those that must come later are copied, into a pool whose size is
// fixed, and what finds no room there is lost, as in a full queue of a switch.
//
// For one thread at a time; the sink must not call back into the stage.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/prng.h"
#include "base/result.h"
#include "base/time.h"

namespace sumcast::net {

/// Probabilities are per datagram and independent, from 0 to 1.
struct FaultPlan {
  double loss = 0;              ///< It never arrives.
  double duplicate = 0;         ///< It arrives again, up to `reorder_span` later.
  double reorder = 0;           ///< It arrives up to `reorder_span` late, behind others.
  Duration delay{0};            ///< Everything arrives this much later, order kept.
  Duration reorder_span = 1ms;  ///< How far a reordered or doubled datagram may fall back.
  uint64_t seed = 1;

  bool active() const { return loss > 0 || duplicate > 0 || reorder > 0 || delay > Duration{0}; }
  /// kInvalidArgument, naming the field, if a value makes no sense.
  Result<void> validate() const;
};

/// They add up: admitted + duplicated = delivered + dropped + overrun + what is still held.
struct FaultCounters {
  uint64_t admitted = 0;
  uint64_t delivered = 0;
  uint64_t dropped = 0;     ///< By `loss`.
  uint64_t duplicated = 0;  ///< Extra copies made.
  uint64_t reordered = 0;
  uint64_t overrun = 0;  ///< Lost because the pool was full or the datagram too long to hold.
};

class FaultStage {
 public:
  /// @param plan                must be valid (asserted).
  /// @param held_max            datagrams held at once, at most: 4 members with 4,096 each on a
  ///                            long path.
  /// @param datagram_bytes_max  the longest one that can be held. No memory if the plan is
  /// inactive.
  explicit FaultStage(const FaultPlan& plan, uint32_t held_max = 16384,
                      uint32_t datagram_bytes_max = 2048);

  bool active() const { return active_; }

  /// Decides one datagram's fate. `sink(std::span<const std::byte> datagram, uint32_t origin)` is
  /// called for what arrives now; the span is valid during that call only.
  ///
  /// @param origin  handed on unchanged, for example the index of the sender.
  template <typename Sink>
  void admit(std::span<const std::byte> datagram, uint32_t origin, Instant now, Sink&& sink) {
    if (!active_ || decide(datagram, origin, now)) {
      ++counters_.delivered;
      sink(datagram, origin);
    }
    ++counters_.admitted;
  }

  /// When the first held datagram arrives; Instant::never() if none is held.
  Instant next_due() const { return held_.empty() ? Instant::never() : held_.front().due; }

  /// Hands on all that is due at `now`, in order.
  template <typename Sink>
  void release_due(Instant now, Sink&& sink) {
    while (next_due() <= now) {
      const Held next = pop();
      ++counters_.delivered;
      sink(std::span<const std::byte>(slot_data(next.slot), next.bytes), next.origin);
      free_slots_.push_back(next.slot);
    }
  }

  size_t held() const { return held_.size(); }
  const FaultCounters& counters() const { return counters_; }

 private:
  struct Held {
    Instant due;
    uint64_t order;  ///< Of admission: ties keep it, so that a plain delay reorders nothing.
    uint32_t slot;
    uint32_t origin;
    uint32_t bytes;
    bool operator<(const Held& other) const {
      return due != other.due ? due > other.due : order > other.order;  // The heap's top is first.
    }
  };

  bool decide(std::span<const std::byte> datagram, uint32_t origin, Instant now);
  bool hold(std::span<const std::byte> datagram, uint32_t origin, Instant due);
  Held pop();
  Duration draw_lag();
  std::byte* slot_data(uint32_t slot) { return memory_.get() + size_t{slot} * slot_bytes_; }

  FaultPlan plan_;
  bool active_;
  Prng prng_;
  uint32_t slot_bytes_;
  std::unique_ptr<std::byte[]> memory_;
  std::vector<uint32_t> free_slots_;  ///< Never grows beyond its first size.
  std::vector<Held> held_;            ///< A heap; reserved at construction.
  uint64_t next_order_ = 0;
  FaultCounters counters_;
};

}  // namespace sumcast::net
