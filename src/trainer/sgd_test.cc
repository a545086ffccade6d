#include "trainer/sgd.h"

#include <gtest/gtest.h>

#include <vector>

namespace sumcast::trainer {
namespace {

TEST(Sgd, KeepsMomentumFromStepToStep) {
  const Sgd sgd(0.5f);
  std::vector<float> weights = {1.0f, 2.0f}, velocity(2);
  const auto step = [&](const std::vector<float>& gradient) {
    sgd.update({weights.data(), {velocity.data()}}, gradient, {0.25f, 1},
               {weights.data(), {velocity.data()}});
  };
  step({1.0f, -2.0f});
  EXPECT_EQ(weights, (std::vector<float>{0.75f, 2.5f}));
  step({0.0f, 0.0f});
  EXPECT_EQ(weights, (std::vector<float>{0.625f, 2.75f}));
}

TEST(Sgd, LooksAheadWithoutTouchingWhatItReads) {
  const Sgd sgd(0.5f);
  const std::vector<float> weights = {1.0f}, velocity = {2.0f};
  std::vector<float> ahead(1), ahead_velocity(1);
  sgd.update({weights.data(), {velocity.data()}}, std::vector<float>{1.0f}, {0.25f, 1},
             {ahead.data(), {ahead_velocity.data()}});
  EXPECT_EQ(ahead[0], 0.5f);
  EXPECT_EQ(weights[0], 1.0f);
  EXPECT_EQ(velocity[0], 2.0f);
}

TEST(LearningRate, RisesToItsPeakAndFallsTowardsZero) {
  EXPECT_FLOAT_EQ(learning_rate(0.4f, 4, 0, 24), 0.1f);
  EXPECT_FLOAT_EQ(learning_rate(0.4f, 4, 3, 24), 0.4f);
  EXPECT_FLOAT_EQ(learning_rate(0.4f, 4, 4, 24), 0.4f);
  EXPECT_FLOAT_EQ(learning_rate(0.4f, 4, 14, 24), 0.2f);
  for (int step = 5; step < 24; ++step) {
    EXPECT_LT(learning_rate(0.4f, 4, step, 24), learning_rate(0.4f, 4, step - 1, 24));
  }
  EXPECT_GT(learning_rate(0.4f, 4, 23, 24), 0.0f);
}

TEST(LearningRate, WorksWithoutWarmUpAndWithOneStep) {
  EXPECT_FLOAT_EQ(learning_rate(0.4f, 0, 0, 1), 0.4f);
}

}  // namespace
}  // namespace sumcast::trainer
