// Pipelines whose computing varies from step to step: what ranks then wait for one another.
//
// A step takes the larger of what computing and what a sum take, but the mean of the larger of two
// times that vary is above the larger of their means, and a sum begins with the slowest rank. A
// wider pipeline evens out more of it. There is no closed form; the recurrence
//
//   begin(r, t) = max(end(r, t-1), done(t-K))        end(r, t) = begin(r, t) + computing
//   done(t)     = max(max over r of end(r, t) + latency, done(t-1) + occupancy)
//
// is played through with numbers that are the same each time. Pure; times are seconds.
#pragma once

#include <cstdint>

namespace sumcast::plan {

/// How much what a step is made of varies around its mean, and among how many ranks.
struct Variation {
  uint32_t workers = 1;
  double compute = 0;  ///< Relative deviation of a rank's computing, from step to step.
  double sum = 0;      ///< Relative deviation of a sum's time.
};

/// The value below which a standard normal variable is with probability `share`, 0 < share < 1; off
/// by 4.5e-4 at most (formula 26.2.23 of Abramowitz and Stegun).
double normal_quantile(double share);

/// The mean of a step in the steady state.
/// @param busy_s  a rank's computing; `width` is at least 2.
double played_step_s(double busy_s, double occupancy_s, double latency_s, uint32_t width,
                     const Variation& variation);

}  // namespace sumcast::plan
