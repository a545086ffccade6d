#include "cli/bench_statistics.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "base/assert.h"

namespace sumcast::cli {
namespace {

std::vector<double> sorted(std::span<const double> values) {
  std::vector<double> copy(values.begin(), values.end());
  std::sort(copy.begin(), copy.end());
  return copy;
}

double mean(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

}  // namespace

double median(std::span<const double> values) {
  if (values.empty()) return 0.0;
  const std::vector<double> all = sorted(values);
  const size_t middle = all.size() / 2;
  return all.size() % 2 != 0 ? all[middle] : (all[middle - 1] + all[middle]) / 2;
}

Spread spread(std::span<const double> values) {
  if (values.empty()) return {};
  const std::vector<double> all = sorted(values);
  const double average = mean(all);
  double squares = 0;
  for (const double value : all) squares += (value - average) * (value - average);
  const double deviation =
      all.size() > 1 ? std::sqrt(squares / static_cast<double>(all.size() - 1)) : 0.0;
  const auto rank = static_cast<size_t>(std::ceil(0.99 * static_cast<double>(all.size())));
  return {all.front(), all.back(), all[rank - 1], average > 0 ? deviation / average * 100 : 0.0};
}

double over_ranks(std::span<const double> values, unsigned mode) {
  SUMCAST_ASSERT(!values.empty());
  switch (mode) {
    case 0:
      return values.front();
    case 1:
      return mean(values);
    case 2:
      return *std::min_element(values.begin(), values.end());
    default:
      return *std::max_element(values.begin(), values.end());
  }
}

}  // namespace sumcast::cli
