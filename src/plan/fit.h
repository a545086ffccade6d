// From measurements to the numbers of a Calibration: lines through samples, and how far samples
// scatter. Pure; who measures is elsewhere (cli/probe.h).
#pragma once

#include <span>
#include <vector>

#include "plan/cost.h"

namespace sumcast::plan {

/// The median, and how far the middle half of the samples spreads: the distance between the
/// quartiles over 1.349 (which is a standard deviation, for normal samples) over the median.
struct Spread {
  double median = 0;
  double relative_deviation = 0;
};
/// At least one sample. An outlier, of which virtual machines have many, moves neither number much.
Spread spread_of(std::vector<double> samples);

/// Medians of repeated measurements at one size.
struct SizeSample {
  double bytes = 0;
  double seconds = 0;
};
/// The line through the smallest and the largest size: fixed and per-byte part, neither negative
/// (a slope or an intercept below zero is noise, and becomes zero). Two sizes at least.
MeasuredCost line_through(std::span<const SizeSample> samples);

}  // namespace sumcast::plan
