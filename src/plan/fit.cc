#include "plan/fit.h"

#include <algorithm>

#include "base/assert.h"

namespace sumcast::plan {

Spread spread_of(std::vector<double> samples) {
  SUMCAST_ASSERT(!samples.empty());
  std::sort(samples.begin(), samples.end());
  const auto quantile = [&](double share) {
    const double place = share * static_cast<double>(samples.size() - 1);
    const auto below = static_cast<size_t>(place);
    const size_t above = std::min(below + 1, samples.size() - 1);
    const double part = place - static_cast<double>(below);
    return samples[below] * (1 - part) + samples[above] * part;
  };
  Spread spread;
  spread.median = quantile(0.5);
  if (spread.median > 0) {
    spread.relative_deviation = (quantile(0.75) - quantile(0.25)) / 1.349 / spread.median;
  }
  return spread;
}

MeasuredCost line_through(std::span<const SizeSample> samples) {
  const auto [small, large] = std::minmax_element(
      samples.begin(), samples.end(),
      [](const SizeSample& a, const SizeSample& b) { return a.bytes < b.bytes; });
  SUMCAST_ASSERT(samples.size() >= 2);
  SUMCAST_ASSERT(small->bytes < large->bytes);
  MeasuredCost line;
  line.per_byte_s =
      std::max(0.0, (large->seconds - small->seconds) / (large->bytes - small->bytes));
  line.fixed_s = std::max(0.0, small->seconds - line.per_byte_s * small->bytes);
  return line;
}

}  // namespace sumcast::plan
