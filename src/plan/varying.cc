#include "plan/varying.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <vector>

#include "base/assert.h"
#include "base/prng.h"

namespace sumcast::plan {
namespace {

/// Steps of one round; the second round is what counts: it begins as it ends.
constexpr size_t kSteps = 512;
/// No step is shorter than this share of the mean.
constexpr double kLeastFactor = 0.2;

/// kSteps quantiles of the standard normal distribution, of mean 0.
const std::array<double, kSteps>& quantiles() {
  static const std::array<double, kSteps> values = [] {
    std::array<double, kSteps> made{};
    for (size_t i = 0; i < kSteps; ++i) {
      made[i] = normal_quantile((static_cast<double>(i) + 0.5) / kSteps);
    }
    return made;
  }();
  return values;
}

/// All quantiles, each once, in an order of its own for each `stream`: factors around 1 of the
/// given deviation. Their mean is 1, however few they are.
std::vector<double> factors(uint64_t stream, double deviation) {
  std::vector<double> result(quantiles().begin(), quantiles().end());
  Prng prng(stream);
  for (size_t i = kSteps; i > 1; --i) std::swap(result[i - 1], result[prng.below(i)]);
  for (double& value : result) value = std::max(kLeastFactor, 1 + deviation * value);
  const double mean = std::accumulate(result.begin(), result.end(), 0.0) / kSteps;
  for (double& value : result) value /= mean;
  return result;
}

}  // namespace

double normal_quantile(double share) {
  SUMCAST_ASSERT(share > 0 && share < 1);
  const double tail = std::min(share, 1 - share);
  const double t = std::sqrt(-2 * std::log(tail));
  const double above = t - (2.515517 + t * (0.802853 + t * 0.010328)) /
                               (1 + t * (1.432788 + t * (0.189269 + t * 0.001308)));
  return share < 0.5 ? -above : above;
}

double played_step_s(double busy_s, double occupancy_s, double latency_s, uint32_t width,
                     const Variation& variation) {
  SUMCAST_ASSERT(width >= 2);
  SUMCAST_ASSERT(variation.workers >= 1);
  const size_t workers = variation.workers;
  std::vector<std::vector<double>> computing;
  for (size_t rank = 0; rank < workers; ++rank) {
    computing.push_back(factors(rank + 1, variation.compute));
  }
  const std::vector<double> summing = factors(0, variation.sum);
  std::vector<double> end(workers, 0.0), done(width, 0.0);
  double last_done = 0, first_round = 0;
  for (size_t step = 0; step < 2 * kSteps; ++step) {
    if (step == kSteps) first_round = *std::max_element(end.begin(), end.end());
    double& slot = done[step % width];  // Holds when the sum of `width` steps ago was done.
    double slowest = 0;
    for (size_t rank = 0; rank < workers; ++rank) {
      end[rank] = std::max(end[rank], slot) + busy_s * computing[rank][step % kSteps];
      slowest = std::max(slowest, end[rank]);
    }
    const double factor = summing[step % kSteps];
    slot = last_done = std::max(slowest + latency_s * factor, last_done + occupancy_s * factor);
  }
  return (*std::max_element(end.begin(), end.end()) - first_round) / kSteps;
}

}  // namespace sumcast::plan
