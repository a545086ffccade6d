// Measures what the planner needs between the ranks of a group: lines through two sizes for each
// algorithm and wire type, what communication takes from computing, and how much all of it varies.
//
// Times are the slowest rank's, by an all-reduce, so that all ranks plan alike. It trains
// nothing and sleeps nowhere. Collective: all ranks call it together.
#pragma once

#include <functional>
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
  std::function<void()> compute;   ///< A step's computing, or a part; the same on all ranks.
};

/// The algorithm of the library that a collective stands for.
Algorithm algorithm_of(plan::Collective collective);

struct Probed {
  plan::Calibration calibration;
  double compute_s = 0;  ///< Of ProbePlan::compute, all ranks computing.
};
/// Errors: of the operations.
Result<Probed> probe(Group& group, const ProbePlan& plan);

}  // namespace sumcast::cli
