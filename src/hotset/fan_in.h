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

#include "hotset/heat.h"

namespace sumcast::hotset {

/// Contributions summed before one leaves. `chance` in (0, 1]; `contributors` >= 1: workers times
/// rounds held.
double expected_fan_in(double chance, double contributors);

/// The chance at which expected_fan_in is `fan_in`: keys above it pay. 0 if every key does
/// (fan_in <= 1), more than 1 if none can (fan_in > contributors).
double chance_for_fan_in(double fan_in, double contributors);

/// The hottest keys of `order` whose expected fan-in reaches `fan_in_min`, at most `capacity`.
std::vector<KeyIndex> choose_hot(const Heat& heat, std::span<const KeyIndex> order, size_t capacity,
                                 double contributors, double fan_in_min);

struct Traffic {
  double sent = 0;       ///< Keys that all workers send in a step (times rounds held).
  double arrives = 0;    ///< Keys that reach the servers when `hot` is summed on the way.
  double fan_in = 0;     ///< Mean over hot sums: hot contributions / hot sums. 0 without hot keys.
  double hot_share = 0;  ///< Of the keys sent.
  /// How many times fewer keys reach the servers.
  double saving() const { return arrives > 0 ? sent / arrives : 1.0; }
};

/// The formulas above over all keys of `heat`.
Traffic predict_traffic(const Heat& heat, std::span<const KeyIndex> hot, double contributors);

/// Counts instead: each round takes `contributors` batches of `batch` rows off `rows`; incomplete
/// rounds are left out. All zero if there is no whole round.
Traffic measure_traffic(const Corpus& corpus, std::span<const uint32_t> rows, size_t batch,
                        std::span<const KeyIndex> hot, size_t contributors);

}  // namespace sumcast::hotset
