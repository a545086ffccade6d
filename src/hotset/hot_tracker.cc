#include "hotset/hot_tracker.h"

#include <algorithm>
#include <cmath>

#include "base/assert.h"

namespace sumcast::hotset {
namespace {

constexpr double kWeightMax = 1e100;  // Counters are scaled back far from what doubles hold.

struct KeyHeat {
  uint64_t key;
  double heat;
};

bool hotter(const KeyHeat& a, const KeyHeat& b) {
  return a.heat != b.heat ? a.heat > b.heat : a.key < b.key;
}

}  // namespace

HotTracker::HotTracker(const TrackerOptions& options)
    : options_(options),
      summary_(options.counters),
      growth_(std::exp2(1.0 / options.half_life_rounds)) {
  SUMCAST_ASSERT(options.capacity >= 1);
  SUMCAST_ASSERT(options.counters > options.capacity);
  SUMCAST_ASSERT(options.promote_ratio >= 1);
  SUMCAST_ASSERT(options.half_life_rounds > 0);
}

void HotTracker::seed(std::span<const uint64_t> keys, std::span<const double> chances) {
  SUMCAST_ASSERT(keys.size() == chances.size());
  SUMCAST_ASSERT(keys.size() <= options_.capacity);
  SUMCAST_ASSERT(residents_.empty());
  batches_ = options_.half_life_rounds;
  for (size_t i = 0; i < keys.size(); ++i) {
    residents_.insert(keys[i]);
    if (chances[i] > 0) summary_.add(keys[i], chances[i] * batches_);
  }
}

void HotTracker::on_batch(std::span<const uint64_t> keys) {
  batches_ += weight_;
  for (const uint64_t key : keys) summary_.add(key, weight_);
}

void HotTracker::end_round() {
  weight_ *= growth_;
  if (weight_ < kWeightMax) return;
  summary_.scale(1 / weight_);
  batches_ /= weight_;
  weight_ = 1;
}

double HotTracker::heat_of(uint64_t key) const {
  const auto counter = summary_.find(key);
  return counter ? counter->heat : 0;
}

double HotTracker::chance(uint64_t key) const {
  return batches_ > 0 ? std::min(1.0, heat_of(key) / batches_) : 0;
}

Swap HotTracker::swap() {
  Swap result;
  if (batches_ <= 0) return result;
  const double heat_min = options_.chance_min * batches_;
  std::vector<KeyHeat> coldest_last, candidates;
  for (const uint64_t key : residents_) coldest_last.push_back({key, heat_of(key)});
  std::sort(coldest_last.begin(), coldest_last.end(), hotter);
  for (const auto& counter : summary_.counters()) {
    if (counter.certain() >= heat_min && counter.certain() > 0 && !is_resident(counter.key)) {
      candidates.push_back({counter.key, counter.certain()});
    }
  }
  std::sort(candidates.begin(), candidates.end(), hotter);
  const auto demote_coldest = [&] {
    result.demoted.push_back(coldest_last.back().key);
    residents_.erase(coldest_last.back().key);
    coldest_last.pop_back();
  };
  // What no longer pays leaves, with the same hysteresis as what comes.
  while (!coldest_last.empty() && result.demoted.size() < options_.swaps_max &&
         coldest_last.back().heat < heat_min / options_.promote_ratio) {
    demote_coldest();
  }
  for (const KeyHeat& candidate : candidates) {
    if (result.promoted.size() == options_.swaps_max) break;
    if (residents_.size() == options_.capacity) {
      // An empty list means that all residents were promoted just now.
      if (coldest_last.empty() || result.demoted.size() == options_.swaps_max ||
          candidate.heat <= options_.promote_ratio * coldest_last.back().heat) {
        break;
      }
      demote_coldest();
    }
    result.promoted.push_back(candidate.key);
    residents_.insert(candidate.key);
  }
  return result;
}

}  // namespace sumcast::hotset
