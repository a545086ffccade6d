// Follows the heat while training runs, so that the hot set drifts with the data.
//
// Counts the keys of batches in a Space-Saving summary whose counts fade by half every
// `half_life_rounds`, and proposes swaps. A key is promoted only when what it has *certainly* had
// beats the coldest resident by `promote_ratio`: two keys of equal heat must not take turns, as
// each swap costs a new placement version and a harvest. It decides; when the swap takes effect (at
// a round that everybody is told ahead of time, design rule 5S.5) is the caller's matter.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_set>
#include <vector>

#include "hotset/space_saving.h"

namespace sumcast::hotset {

struct TrackerOptions {
  size_t capacity = 0;  ///< Most keys in the hot set, >= 1.
  /// Counters of the summary, > capacity. Four times the capacity keeps the error of keys near the
  /// border small against their heat on click-like data.
  size_t counters = 0;
  double promote_ratio = 1.2;     ///< >= 1.
  double half_life_rounds = 200;  ///< > 0. About how long a key must be hot to become resident.
  /// Least share of batches that must touch a key for its place to pay: chance_for_fan_in(2, W).
  double chance_min = 0;
  size_t swaps_max = SIZE_MAX;  ///< Of one call of swap(): bounds the harvest.
};

struct Swap {
  std::vector<uint64_t> demoted;   ///< Coldest first.
  std::vector<uint64_t> promoted;  ///< Hottest first.
  bool is_empty() const { return demoted.empty() && promoted.empty(); }
};

/// One thread at a time.
class HotTracker {
 public:
  explicit HotTracker(const TrackerOptions& options);

  /// Residents to begin with, as sampling chose them; at most `capacity`, distinct. Call first.
  /// They stand as if `chances` (of the same length) had been seen for a half-life.
  void seed(std::span<const uint64_t> keys, std::span<const double> chances);

  /// A batch of one worker touched `keys` (distinct).
  void on_batch(std::span<const uint64_t> keys);
  /// A round ended: counts fade.
  void end_round();

  /// Changes the hot set and says how. Nothing changes without batches.
  /// @cost O(counters log counters).
  Swap swap();

  bool is_resident(uint64_t key) const { return residents_.contains(key); }
  size_t residents() const { return residents_.size(); }
  /// Share of recent batches that touched the key, as far as known; 0 for others.
  double chance(uint64_t key) const;

 private:
  double heat_of(uint64_t key) const;

  TrackerOptions options_;
  SpaceSaving summary_;
  std::unordered_set<uint64_t> residents_;  // Asked for membership; walked only into a sort.
  double batches_ = 0;                      // In units of weight_.
  double weight_ = 1;  // Of a batch now. Grows instead of all counters shrinking every round.
  double growth_;
};

}  // namespace sumcast::hotset
