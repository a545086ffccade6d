#include "trainer/sgd.h"

#include <gtest/gtest.h>

#include <vector>

namespace sumcast::trainer {
namespace {

TEST(Sgd, KeepsMomentumFromStepToStep) {
  Sgd sgd(2, 0.5f);
  std::vector<float> weights = {1.0f, 2.0f};
  sgd.step(weights, std::vector<float>{1.0f, -2.0f}, 0.25f);
  EXPECT_EQ(weights, (std::vector<float>{0.75f, 2.5f}));
  sgd.step(weights, std::vector<float>{0.0f, 0.0f}, 0.25f);
  EXPECT_EQ(weights, (std::vector<float>{0.625f, 2.75f}));
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
