#include "auth/counter.h"

#include <gtest/gtest.h>

namespace sumcast::auth {
namespace {

constexpr uint64_t kWrap = uint64_t{1} << 32;

CounterUnwrap at(uint64_t highest) {
  CounterUnwrap counter;
  counter.accept(highest);
  return counter;
}

TEST(Counter, StartsAtZeroAndNeverGoesBelow) {
  const CounterUnwrap counter;
  EXPECT_EQ(counter.unwrap(0), 0u);
  EXPECT_EQ(counter.unwrap(1), 1u);
  EXPECT_EQ(counter.unwrap(0xFFFFFFFF), 0xFFFFFFFFu);
  EXPECT_EQ(at(10).unwrap(0xFFFFFFFF), 0xFFFFFFFFu);
  EXPECT_EQ(at(10).unwrap(3), 3u);
}

TEST(Counter, TakesTheNearestValueOnBothSidesOfAWrap) {
  EXPECT_EQ(at(kWrap - 1).unwrap(0), kWrap);
  EXPECT_EQ(at(kWrap - 1).unwrap(5), kWrap + 5);
  EXPECT_EQ(at(kWrap).unwrap(0xFFFFFFFF), kWrap - 1);
  EXPECT_EQ(at(5 * kWrap + 7).unwrap(0xFFFFFFF0), 5 * kWrap - 16);
  EXPECT_EQ(at(5 * kWrap + 7).unwrap(7), 5 * kWrap + 7);
}

TEST(Counter, ReachesHalfACircleEitherWay) {
  const uint64_t highest = 9 * kWrap;
  EXPECT_EQ(at(highest).unwrap(0x7FFFFFFF), highest + 0x7FFFFFFF);
  EXPECT_EQ(at(highest).unwrap(0x80000000), highest - 0x80000000);
}

TEST(Counter, FollowsASenderOverManyWraps) {
  CounterUnwrap counter;
  for (uint64_t sent = 0; sent < 6 * kWrap; sent += 0x7FFF0001) {
    ASSERT_EQ(counter.unwrap(static_cast<uint32_t>(sent)), sent);
    counter.accept(sent);
  }
}

TEST(Counter, AnOlderOneDoesNotMoveItBack) {
  CounterUnwrap counter = at(100);
  counter.accept(50);
  EXPECT_EQ(counter.highest(), 100u);
}

TEST(Counter, UnwrappingAloneChangesNothing) {
  const CounterUnwrap counter = at(kWrap - 1);
  EXPECT_EQ(counter.unwrap(1000), kWrap + 1000);
  EXPECT_EQ(counter.highest(), kWrap - 1);
}

}  // namespace
}  // namespace sumcast::auth
