#include "control/slot_ranges.h"

#include <algorithm>

#include "base/assert.h"

namespace sumcast::control {

SlotRanges::SlotRanges(uint32_t size) : size_(size) {
  SUMCAST_ASSERT(size >= 1);
  SUMCAST_ASSERT(size <= 65535);
}

SlotRange SlotRanges::best_gap(uint32_t wanted) const {
  SlotRange best;
  uint32_t free_from = 0;
  const auto consider = [&](uint32_t free_until) {
    const uint32_t room = std::min(free_until - free_from, wanted);
    if (room > best.count) best = SlotRange{free_from, room};
  };
  for (const SlotRange& range : taken_) {
    consider(range.base);
    free_from = range.base + range.count;
  }
  consider(size_);
  return best;
}

std::optional<SlotRange> SlotRanges::take(uint32_t wanted) {
  const uint32_t share = in_use_ == 0 ? size_ / 2 : (size_ - in_use_) / 8;
  const SlotRange range = best_gap(std::clamp(wanted, 1u, std::max(share, 1u)));
  if (range.count == 0) return std::nullopt;
  const auto after = std::find_if(taken_.begin(), taken_.end(),
                                  [&](const SlotRange& other) { return other.base > range.base; });
  taken_.insert(after, range);
  in_use_ += range.count;
  return range;
}

void SlotRanges::give_back(SlotRange range) {
  const auto found = std::find(taken_.begin(), taken_.end(), range);
  SUMCAST_ASSERT(found != taken_.end());
  taken_.erase(found);
  in_use_ -= range.count;
}

}  // namespace sumcast::control
