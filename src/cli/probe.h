// Measures what the planner needs between the ranks of a group: lines through two sizes for each
// algorithm and wire type, how much communication and computing slow each other, and how much all
// of it varies.
//
// For the slowing, sums of half the larger size run beside computing without a pause, two of them
// always under way (over a long path up to four), so that neither waits for the other: no schedule
// of training does that.
//
// Lines are the slowest rank's, computing and what the two cost each other are means over ranks,
// all by all-reduces, so that all ranks plan alike. It trains
// nothing and sleeps nowhere. Collective: all ranks call it together.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "plan/advice.h"
#include "plan/cost.h"
#include "sumcast/sumcast.hpp"

namespace sumcast::cli {

struct ProbePlan {
  std::vector<std::pair<plan::Collective, WireFormat>> pairs;  ///< What to measure.
  uint64_t small_bytes = 64 << 10;
  uint64_t large_bytes = 8 << 20;  ///< Ideally the model's own size. Whole floats.
  int repeats = 7;                 ///< Of each measurement, after one that does not count.
  int alone_steps = 3;             ///< Of computing, before and after each time beside sums.
  /// Whether to measure how long ranks of synchronous steps wait for one another, by the first
  /// pair; needs `compute`.
  bool straggling = false;
  /// A step's computing in slices of some milliseconds, the same on all ranks; may be empty.
  std::vector<std::function<void()>> compute;
};

/// A barrier at which who comes first computes on, slice by slice (one at least), until all have
/// come: had the first ones ended, the last ones' computing would find the cores free that ranks of
/// one host share, and seem faster than it is. Errors: of the barrier.
Result<void> compute_until_all_come(Group& group, std::span<const std::function<void()>> compute);

/// The algorithm of the library that a collective stands for.
Algorithm algorithm_of(plan::Collective collective);

struct Probed {
  plan::Calibration calibration;
  double compute_s = 0;  ///< Of all of ProbePlan::compute, all ranks computing.
};
/// Errors: of the operations.
Result<Probed> probe(Group& group, const ProbePlan& plan);

}  // namespace sumcast::cli
