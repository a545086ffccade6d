#include "trainer/adamw.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace sumcast::trainer {
namespace {

struct Adam {
  std::vector<float> weights, first, second;
  explicit Adam(std::vector<float> start)
      : weights(std::move(start)), first(weights.size()), second(weights.size()) {}
  void step(const AdamW& rule, const std::vector<float>& gradient, float rate, uint64_t count) {
    rule.update({weights.data(), {first.data(), second.data()}}, gradient, {rate, count},
                {weights.data(), {first.data(), second.data()}});
  }
};

TEST(AdamW, TheFirstStepIsTheRateInTheGradientsDirection) {
  const AdamW rule({0.9f, 0.999f, 1e-8f, 0.0f});
  Adam adam({1.0f, 1.0f, 1.0f});
  adam.step(rule, {5.0f, -0.001f, 0.0f}, 0.1f, 1);
  EXPECT_NEAR(adam.weights[0], 0.9f, 1e-5);
  EXPECT_NEAR(adam.weights[1], 1.1f, 1e-4);
  EXPECT_EQ(adam.weights[2], 1.0f);
}

TEST(AdamW, FollowsItsFormulaOverSeveralSteps) {
  const AdamW rule({0.8f, 0.9f, 1e-8f, 0.1f});
  Adam adam({2.0f});
  double w = 2, m = 0, v = 0;
  for (uint64_t t = 1; t <= 6; ++t) {
    const double g = 0.3 * static_cast<double>(t) - 1;
    m = 0.8 * m + 0.2 * g;
    v = 0.9 * v + 0.1 * g * g;
    const double n = static_cast<double>(t);
    w -= 0.05 *
         (m / (1 - std::pow(0.8, n)) / (std::sqrt(v / (1 - std::pow(0.9, n))) + 1e-8) + 0.1 * w);
    adam.step(rule, {static_cast<float>(g)}, 0.05f, t);
    EXPECT_NEAR(adam.weights[0], w, 1e-5) << t;
  }
}

TEST(AdamW, DecayShrinksWeightsThatHaveNoGradient) {
  const AdamW rule({0.9f, 0.999f, 1e-8f, 0.5f});
  Adam adam({2.0f});
  adam.step(rule, {0.0f}, 0.1f, 1);
  EXPECT_FLOAT_EQ(adam.weights[0], 2.0f * (1 - 0.05f));
}

}  // namespace
}  // namespace sumcast::trainer
