// What summing a key on the way saves: expected fan-in, and traffic at the servers.
//
// W workers touch a key in a step with chance p each, independently. Then W p contributions are
// sent and, where the aggregator sums them, one sum leaves with chance 1 - (1 - p)^W:
//
//   fan-in(p, W)  = W p / (1 - (1 - p)^W)                  from 1 (rare) to W (always)
//   keys at the servers per step:  sum over cold keys of W p  +  sum over hot keys of 1 - (1-p)^W
//
// Sums held for T rounds are the same with W T in place of W. A key is worth a place only if its
// fan-in pays for the detour: 2 by default, two contributions in and one out.
#pragma once

#include <span>
#include <vector>

#include "hotset/chances.h"
#include "hotset/heat.h"

namespace sumcast::hotset {

/// Contributions summed before one leaves. `chance` in (0, 1]; `contributors` >= 1: workers times
/// rounds held.
double expected_fan_in(double chance, double contributors);

/// The chance at which expected_fan_in is `fan_in`: keys above it pay. 0 if every key does
/// (fan_in <= 1), more than 1 if none can (fan_in > contributors).
double chance_for_fan_in(double fan_in, double contributors);

/// The keys of `order` (hottest first) whose expected fan-in reaches `fan_in_min`, at most
/// `capacity`.
std::vector<KeyIndex> choose_hot(const Chances& chances, std::span<const KeyIndex> order,
                                 size_t capacity, double contributors, double fan_in_min);

/// Keys per step (or per rounds held) that cross the network in one direction.
struct Traffic {
  double contributors = 0;
  double sent = 0;      ///< By all workers together.
  double hot_sent = 0;  ///< Of them those of hot keys.
  double hot_sums = 0;  ///< Distinct hot keys: sums that leave the aggregator.

  double hot_share() const { return sent > 0 ? hot_sent / sent : 0; }
  /// Mean contributions per hot sum. 0 without hot keys.
  double fan_in() const { return hot_sums > 0 ? hot_sent / hot_sums : 0; }
  /// How many times fewer keys reach the servers if hot sums are forwarded to them.
  double forward_saving() const { return ratio(sent, sent - hot_sent + hot_sums); }
  /// The same if hot rows live at the workers (design rule 5S.2): servers see only cold keys, and
  /// send as many fewer rows back. Infinite without cold keys.
  double dual_saving() const { return ratio(sent, sent - hot_sent); }
  /// What a worker then receives - its cold rows and every hot sum - against its own rows alone.
  double dual_received() const {
    return ratio((sent - hot_sent) / contributors + hot_sums, sent / contributors);
  }

 private:
  static double ratio(double a, double b) { return a == b ? 1.0 : a / b; }
};

/// The formulas above.
Traffic predict_traffic(const Chances& chances, std::span<const KeyIndex> hot, double contributors);

/// Counts instead: each round takes `contributors` batches of `batch` rows off `rows`; incomplete
/// rounds are left out. All zero if there is no whole round.
Traffic measure_traffic(const Corpus& corpus, std::span<const uint32_t> rows, size_t batch,
                        std::span<const KeyIndex> hot, size_t contributors);

}  // namespace sumcast::hotset
