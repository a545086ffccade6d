#include "plan/varying.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace sumcast::plan {
namespace {

TEST(NormalQuantile, IsThatOfTheTables) {
  EXPECT_NEAR(normal_quantile(0.5), 0, 5e-4);
  EXPECT_NEAR(normal_quantile(0.975), 1.959964, 5e-4);
  EXPECT_NEAR(normal_quantile(0.001), -3.090232, 5e-4);
}

TEST(PlayedStep, WithoutVariationIsTheClosedForm) {
  for (const double occupancy : {0.0, 0.5, 0.99, 1.01, 3.0}) {
    for (const double latency : {occupancy, occupancy + 1.5, occupancy + 7.0}) {
      for (const uint32_t width : {2u, 3u, 8u}) {
        const double closed = std::max({1.0, occupancy, (1.0 + latency) / width});
        EXPECT_NEAR(played_step_s(1.0, occupancy, latency, width, {4, 0, 0}), closed, 0.01)
            << occupancy << " " << latency << " " << width;
      }
    }
  }
}

TEST(PlayedStep, OfOneRankAloneIsTheLargerOfTheTwoOnAverage) {
  // With K = 2 and sums as long as computing, each step waits for the later of two equal times
  // that vary independently: the mean of the larger of two normals is 0.564 deviations up.
  const double step = played_step_s(1.0, 1.0, 1.0, 2, {1, 0.2, 0.2});
  EXPECT_GT(step, 1.05);
  EXPECT_LT(step, 1 + 0.2 * 0.9);
}

TEST(PlayedStep, GrowsWithDeviationAndRanksAndShrinksWithWidth) {
  const auto at = [](double deviation, uint32_t workers, uint32_t width) {
    return played_step_s(1.0, 0.9, 0.9, width, {workers, deviation, 0.02});
  };
  EXPECT_LT(at(0.05, 4, 2), at(0.1, 4, 2));
  EXPECT_LT(at(0.1, 4, 2), at(0.3, 4, 2));
  EXPECT_LT(at(0.2, 2, 2), at(0.2, 8, 2));
  EXPECT_LT(at(0.2, 8, 2), at(0.2, 64, 2));
  EXPECT_GT(at(0.2, 8, 2), at(0.2, 8, 3));
  EXPECT_GT(at(0.2, 8, 3), at(0.2, 8, 5));
}

TEST(PlayedStep, ComputingThatVariesButHidesAllSumsTakesItsMean) {
  EXPECT_NEAR(played_step_s(1.0, 0, 0, 2, {1, 0.3, 0.3}), 1.0, 0.005);
  EXPECT_NEAR(played_step_s(1.0, 0.05, 0.05, 8, {4, 0.1, 0.1}), 1.0, 0.01);
}

TEST(PlayedStep, IsTheSameEachTime) {
  const Variation variation{16, 0.25, 0.1};
  EXPECT_EQ(played_step_s(0.02, 0.01, 0.05, 3, variation),
            played_step_s(0.02, 0.01, 0.05, 3, variation));
}

}  // namespace
}  // namespace sumcast::plan
