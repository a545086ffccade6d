#include "core/patience.h"

#include <gtest/gtest.h>

namespace sumcast::core {
namespace {

TEST(Patience, IsAtItsLimitsUntilARoundTripWasSeen) {
  Patience patience(1ms, 15ms);
  EXPECT_EQ(patience.reorder(), 1ms);
  EXPECT_EQ(patience.repeat(), 15ms);
}

TEST(Patience, FollowsRoundTripsBetweenItsLimits) {
  Patience patience(1ms, 15ms);
  patience.on_round_trip(2ms);
  EXPECT_EQ(patience.reorder(), 500us);
  EXPECT_EQ(patience.repeat(), 5ms);
  for (int i = 0; i < 200; ++i) patience.on_round_trip(100us);
  EXPECT_EQ(patience.reorder(), 100us);
  EXPECT_EQ(patience.repeat(), 1ms);
  for (int i = 0; i < 200; ++i) patience.on_round_trip(100ms);
  EXPECT_EQ(patience.reorder(), 1ms);
  EXPECT_EQ(patience.repeat(), 15ms);
}

TEST(Patience, LimitsBelowTheLeastWaitsHold) {
  Patience patience(0ms, 0ms);
  patience.on_round_trip(2ms);
  EXPECT_EQ(patience.reorder(), 0ms);
  EXPECT_EQ(patience.repeat(), 0ms);
}

}  // namespace
}  // namespace sumcast::core
