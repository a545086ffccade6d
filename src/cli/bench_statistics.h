// The few statistics that the bench prints. Pure.
#pragma once

#include <span>

namespace sumcast::cli {

/// Middle value; the mean of the two in the middle for an even number; 0 of nothing.
double median(std::span<const double> values);

/// What `-I 1` tells about the iterations of one row.
struct Spread {
  double min = 0, max = 0;
  double p99 = 0;         ///< The smallest value that at least 99 % do not exceed.
  double cv_percent = 0;  ///< Standard deviation (of a sample) over the mean.
};
Spread spread(std::span<const double> values);

/// How nccl-tests' `-a` joins the times of the ranks: 0 rank 0, 1 mean, 2 min, 3 max.
/// @pre !values.empty()
double over_ranks(std::span<const double> values, unsigned mode);

}  // namespace sumcast::cli
