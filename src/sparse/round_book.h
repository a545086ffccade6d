// Which rounds of which workers a server has: when a segment's part of a round is complete, when a
// round is over, and whether a worker may begin another (P20).
//
// Rounds are counted from 0. Up to staleness + 1 of them are open at once, each with a place of its
// own for what workers sent. Every worker's parts come in order, round by round and within a round
// segment by segment, and whoever brings the last part of a segment handles it before bringing its
// own next one: so segments are complete in the order of rounds, and rounds are over in order.
//
// Threads: arrive() from any, all else under the owner's lock. Knows no clocks and no sockets.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace sumcast::sparse {

class RoundBook {
 public:
  RoundBook(uint32_t workers, uint32_t segments, uint32_t staleness)
      : workers_(workers),
        segments_(segments),
        places_(staleness + 1),
        arrived_(size_t{places_} * segments) {}

  uint32_t places() const { return places_; }
  uint32_t place_of(uint32_t round) const { return round % places_; }
  /// Rounds that are over: the first so many.
  uint32_t ended() const { return ended_; }
  /// Is the round's place free? Of a worker that has sent all rounds before it.
  bool may_begin(uint32_t round) const { return round - ended_ < places_; }

  /// A worker's part of a segment is here. @return true: everybody's is.
  bool arrive(uint32_t round, uint32_t segment) {
    std::atomic<uint32_t>& arrived = arrived_[size_t{place_of(round)} * segments_ + segment];
    if (arrived.fetch_add(1, std::memory_order_acq_rel) + 1 < workers_) return false;
    arrived.store(0, std::memory_order_relaxed);
    return true;
  }
  /// A complete segment was handled. @return true: it was the round's last one.
  bool handled() {
    if (++handled_ < segments_) return false;
    handled_ = 0;
    return true;
  }
  void end_round() { ++ended_; }
  /// Nothing is under way, and rounds are counted from 0 again.
  void reset() {
    for (auto& arrived : arrived_) arrived.store(0, std::memory_order_relaxed);
    handled_ = ended_ = 0;
  }

 private:
  uint32_t workers_, segments_, places_;
  std::vector<std::atomic<uint32_t>> arrived_;  // By place and segment.
  uint32_t handled_ = 0, ended_ = 0;
};

}  // namespace sumcast::sparse
