// The stability limits of delayed gradients, docs/convergence.md, found by the training code
// itself: a scalar quadratic of curvature 1, gradient descent with momentum b, and the largest rate
// at which weights do not grow.
#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "pipeline/pipeline.h"
#include "trainer/sgd.h"

namespace sumcast::trainer {
namespace {

using pipeline::Forecast;
using pipeline::PipelineOptions;

bool grows(const PipelineOptions& options, uint32_t ranks, float momentum, float rate) {
  const Sgd rule(momentum);
  // Ranks are alike, so that the mean is what each has.
  pipeline::BlockingAverager averager(
      0, ranks, [](std::span<float>) { return Result<void>(); },
      [](std::span<double>) { return Result<void>(); });
  std::array<float, 1> weight = {1.0f}, gradient;
  pipeline::Pipeline pipeline(options, rule, averager, weight);
  float early = 0, late = 0;
  constexpr int kSteps = 6000;
  for (int step = 0; step < kSteps; ++step) {
    gradient[0] = weight[0];
    EXPECT_TRUE(pipeline.step(gradient, 0, rate).has_value());
    const float size = std::fabs(pipeline.committed()[0]);
    if (size > 1e15f) return true;
    if (size > 0 && step > kSteps - 500) late = std::max(late, size);
    if (step < 500) early = std::max(early, size);
  }
  return late > early;
}

/// The largest stable rate, by halving.
double limit(PipelineOptions options, uint32_t ranks, float momentum) {
  options.hash_every = 0;
  options.warmup_steps = 1;
  double stable = 0, unstable = 4.5;
  while (unstable - stable > 5e-4) {
    const double middle = (stable + unstable) / 2;
    (grows(options, ranks, momentum, static_cast<float>(middle)) ? unstable : stable) = middle;
  }
  return stable;
}

PipelineOptions with(uint32_t width, Forecast forecast) {
  PipelineOptions options;
  options.width = width;
  options.forecast = forecast;
  return options;
}

struct Row {
  const char* scheme;
  uint32_t width;
  Forecast forecast;
  uint32_t ranks;
  std::array<double, 3> limits;  ///< For momentum 0, 0.5, 0.9.
};

class Stability : public ::testing::TestWithParam<Row> {};

TEST_P(Stability, LimitsAreThoseOfTheTable) {
  const Row& row = GetParam();
  constexpr std::array<float, 3> kMomenta = {0.0f, 0.5f, 0.9f};
  for (size_t i = 0; i < kMomenta.size(); ++i) {
    const double found = limit(with(row.width, row.forecast), row.ranks, kMomenta[i]);
    // The table has two digits, three below a tenth.
    const double tolerance = row.limits[i] <= 0.1 ? 0.0012 : 0.007;
    EXPECT_NEAR(found, row.limits[i], tolerance) << "momentum " << kMomenta[i];
  }
}

INSTANTIATE_TEST_SUITE_P(
    Table, Stability,
    ::testing::Values(
        Row{"synchronous", 1, Forecast::kNone, 1, {2.00, 3.00, 3.80}},
        Row{"delay_1", 2, Forecast::kNone, 1, {1.00, 0.50, 0.100}},
        Row{"delay_2", 3, Forecast::kNone, 1, {0.618, 0.28, 0.052}},
        Row{"delay_3", 4, Forecast::kNone, 1, {0.445, 0.20, 0.035}},
        Row{"forecast_by_last_mean", 2, Forecast::kPrevious, 1, {0.62, 0.52, 0.50}},
        Row{"own_gradient", 2, Forecast::kLocal, 4, {2.00, 3.00, 3.80}},
        Row{"own_share_of_2_fresh", 2, Forecast::kLocalAndPrevious, 2, {1.00, 0.78, 0.70}},
        Row{"own_share_of_4_fresh", 2, Forecast::kLocalAndPrevious, 4, {0.76, 0.62, 0.58}},
        Row{"own_share_of_8_fresh", 2, Forecast::kLocalAndPrevious, 8, {0.68, 0.57, 0.54}}),
    [](const auto& row) { return std::string(row.param.scheme); });

TEST(Stability, TheClosedFormHoldsWithoutMomentum) {
  for (const uint32_t delay : {1u, 2u, 3u, 5u, 7u}) {
    const double expected = 2 * std::sin(M_PI / (2 * (2 * delay + 1)));
    EXPECT_NEAR(limit(with(delay + 1, Forecast::kNone), 1, 0.0f), expected, 0.003) << delay;
  }
}

}  // namespace
}  // namespace sumcast::trainer
