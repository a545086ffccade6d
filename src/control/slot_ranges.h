// Hands out ranges of slot indices to groups, first fit.
//
// The pool of a job is small (hundreds of slots), groups come and go, and a group needs its slots
// in one piece: a sorted list of what is taken is all there is. Nothing here waits; what a group
// gets is decided when it is created, so that groups cannot wait for one another in a circle.
//
// The rule of shares: the first group may take half the pool, since most jobs have no other; each
// later one an eighth of what is free. So forty groups fit a pool of 1,024 before the pool is out.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace sumcast::control {

/// Slots [base, base + count).
struct SlotRange {
  uint32_t base = 0;
  uint32_t count = 0;
  bool operator==(const SlotRange&) const = default;
};

class SlotRanges {
 public:
  /// @param size  slots in the pool, 1..65535.
  explicit SlotRanges(uint32_t size);

  /// A range of 1..`wanted` slots within the fair share; nothing if the pool is exhausted.
  std::optional<SlotRange> take(uint32_t wanted);
  /// Gives back a range that `take` returned (asserted).
  void give_back(SlotRange range);

  uint32_t size() const { return size_; }
  uint32_t in_use() const { return in_use_; }

 private:
  /// The start of the first gap with room for `wanted` slots, else of the longest one.
  SlotRange best_gap(uint32_t wanted) const;

  uint32_t size_;
  uint32_t in_use_ = 0;
  std::vector<SlotRange> taken_;  // Ascending, disjoint.
};

}  // namespace sumcast::control
