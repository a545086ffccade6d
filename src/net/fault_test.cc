#include "net/fault.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <vector>

namespace sumcast::net {
namespace {

using Bytes = std::vector<std::byte>;

/// Datagram `i`: its number and a filling that depends on it.
Bytes numbered(uint32_t i) {
  Bytes bytes(8 + i % 50, std::byte(i * 7 & 0xFF));
  std::memcpy(bytes.data(), &i, sizeof i);
  return bytes;
}

struct Seen {
  std::vector<uint32_t> order;

  void operator()(std::span<const std::byte> datagram, uint32_t origin) {
    uint32_t i = 0;
    std::memcpy(&i, datagram.data(), sizeof i);
    EXPECT_EQ(Bytes(datagram.begin(), datagram.end()), numbered(i));
    EXPECT_EQ(origin, i % 5) << "the origin stays with its datagram";
    order.push_back(i);
  }
};

/// Admits `count` datagrams, `step` apart, releasing what is due in between, then all the rest.
std::vector<uint32_t> pass_through(FaultStage& stage, uint32_t count, Duration step) {
  Seen seen;
  Instant now{1000};
  for (uint32_t i = 0; i < count; ++i) {
    stage.release_due(now, seen);
    stage.admit(numbered(i), i % 5, now, seen);
    now = now + step;
  }
  while (stage.next_due() != Instant::never()) stage.release_due(stage.next_due(), seen);
  return seen.order;
}

void expect_counters_add_up(const FaultStage& stage) {
  const FaultCounters& c = stage.counters();
  EXPECT_EQ(c.admitted + c.duplicated, c.delivered + c.dropped + c.overrun + stage.held());
}

TEST(FaultStage, PassesEverythingOnWhenInactive) {
  FaultStage stage(FaultPlan{});
  EXPECT_FALSE(stage.active());
  const auto order = pass_through(stage, 100, 1us);
  ASSERT_EQ(order.size(), 100u);
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
  EXPECT_EQ(stage.counters().delivered, 100u);
}

TEST(FaultStage, LosesDoublesAndReordersAboutAsOftenAsPlanned) {
  FaultPlan plan;
  plan.loss = 0.1;
  plan.duplicate = 0.05;
  plan.reorder = 0.2;
  FaultStage stage(plan);
  constexpr uint32_t kCount = 100000;
  const auto order = pass_through(stage, kCount, 10us);
  const FaultCounters& c = stage.counters();
  EXPECT_EQ(c.admitted, kCount);
  EXPECT_NEAR(static_cast<double>(c.dropped), 10000, 500);  // Five standard deviations.
  EXPECT_NEAR(static_cast<double>(c.duplicated), 4500, 350);
  EXPECT_NEAR(static_cast<double>(c.reordered), 18000, 620);
  EXPECT_EQ(order.size(), c.delivered);
  EXPECT_EQ(c.overrun, 0u);
  expect_counters_add_up(stage);
  uint32_t out_of_order = 0;
  for (size_t i = 1; i < order.size(); ++i) out_of_order += order[i] < order[i - 1] ? 1 : 0;
  EXPECT_GT(out_of_order, 10000u) << "reordered ones really come behind others";
}

TEST(FaultStage, RepeatsItselfFromItsSeed) {
  FaultPlan plan;
  plan.loss = 0.3;
  plan.duplicate = 0.3;
  plan.reorder = 0.3;
  FaultStage a(plan), b(plan);
  const auto first = pass_through(a, 2000, 50us);
  EXPECT_EQ(first, pass_through(b, 2000, 50us));
  plan.seed = 2;
  FaultStage c(plan);
  EXPECT_NE(first, pass_through(c, 2000, 50us));
}

TEST(FaultStage, DelaysEverythingAndKeepsTheOrder) {
  FaultPlan plan;
  plan.delay = 5ms;
  FaultStage stage(plan);
  Seen seen;
  const Instant start{1000};
  for (uint32_t i = 0; i < 20; ++i) stage.admit(numbered(i), i % 5, start, seen);
  EXPECT_TRUE(seen.order.empty());
  EXPECT_EQ(stage.next_due(), start + 5ms);
  stage.release_due(start + 5ms - 1ns, seen);
  EXPECT_TRUE(seen.order.empty());
  stage.release_due(start + 5ms, seen);
  ASSERT_EQ(seen.order.size(), 20u);
  EXPECT_TRUE(std::is_sorted(seen.order.begin(), seen.order.end()));
  EXPECT_EQ(stage.next_due(), Instant::never());
}

TEST(FaultStage, DropsWhatFindsNoRoomAndCountsIt) {
  FaultPlan plan;
  plan.delay = 1ms;
  FaultStage stage(plan, 8, 64);
  Seen seen;
  for (uint32_t i = 0; i < 12; ++i) stage.admit(numbered(i), i % 5, Instant{1}, seen);
  EXPECT_EQ(stage.held(), 8u);
  EXPECT_EQ(stage.counters().overrun, 4u);
  expect_counters_add_up(stage);
  stage.release_due(Instant{1} + 1ms, seen);
  EXPECT_EQ(seen.order.size(), 8u);
  const Bytes long_one(65);
  stage.admit(long_one, 0, Instant{1} + 1ms, seen);
  EXPECT_EQ(stage.counters().overrun, 5u);
  expect_counters_add_up(stage);
}

TEST(FaultStage, LosesAllOrNothingAtTheEnds) {
  FaultPlan plan;
  plan.loss = 1;
  FaultStage all(plan);
  EXPECT_TRUE(pass_through(all, 50, 1us).empty());
  plan.loss = 0;
  plan.duplicate = 1;
  FaultStage twice(plan);
  EXPECT_EQ(pass_through(twice, 50, 1us).size(), 100u);
}

TEST(FaultPlan, RefusesNonsense) {
  FaultPlan plan;
  EXPECT_TRUE(plan.validate());
  plan.loss = 1.5;
  EXPECT_EQ(plan.validate().error().what, "loss is 1.5, but a probability lies between 0 and 1");
  plan = {};
  plan.reorder = std::numeric_limits<double>::quiet_NaN();
  EXPECT_FALSE(plan.validate());
  plan = {};
  plan.delay = -1ns;
  EXPECT_FALSE(plan.validate());
}

}  // namespace
}  // namespace sumcast::net
