// The goals for the cost of loss, in virtual time and with the recommended recovery.
#include <gtest/gtest.h>

#include "sim/loss_cost.h"

namespace sumcast::sim {
namespace {

LossCostConfig recommended() {
  LossCostConfig config;
  config.recovery.rto_factor = 2.5;
  config.recovery.silence_factor = 0.25;
  return config;
}

TEST(LossCost, OfACleanNetworkIsNothingAndTheWireIsFull) {
  const LossCost cost = loss_cost(recommended(), 1);
  EXPECT_LT(cost.over_wire, 1.01);
  EXPECT_EQ(cost.repeats_share, 0);
  EXPECT_EQ(cost.wasted_share, 0);
}

TEST(LossCost, OfATenthOfAPercentIsBelowTwoPercent) {
  const double clean = loss_cost(recommended(), 1).milliseconds;
  LossCostConfig config = recommended();
  config.loss = 0.001;
  EXPECT_LT(loss_cost(config, 3).worst / clean, 1.02);
}

TEST(LossCost, OfOnePercentIsBelowSixPercent) {
  const double clean = loss_cost(recommended(), 1).milliseconds;
  LossCostConfig config = recommended();
  config.loss = 0.01;
  const LossCost cost = loss_cost(config, 3);
  EXPECT_LT(cost.worst / clean, 1.06);
  EXPECT_LT(cost.repeats_share, 0.03) << "only the loser resends";
}

}  // namespace
}  // namespace sumcast::sim
