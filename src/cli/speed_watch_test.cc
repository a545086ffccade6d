#include "cli/speed_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sumcast::cli {
namespace {

/// A machine whose looks take what is written down, the last one for ever; a look takes 100 ms of
/// the clock, a measurement a second.
class Machine {
 public:
  explicit Machine(std::vector<double> looks) : looks_(std::move(looks)) {}

  Result<std::pair<int, double>> measure(SpeedWatch& watch) {
    return watch.steadily<int>(
        [&]() -> Result<double> {
          now = now + 100ms;
          return looks_[std::min(looked++, looks_.size() - 1)];
        },
        [&]() -> Result<int> {
          now = now + 1s;
          return measured++;
        });
  }
  SpeedWatch watch() {
    return SpeedWatch(1.0, [this] { return now; });
  }

  Instant now{0};
  size_t looked = 0;
  int measured = 0;

 private:
  std::vector<double> looks_;
};

TEST(SpeedWatch, OneMeasurementIsEnoughOnAQuietMachine) {
  Machine machine({1.02, 0.98});
  SpeedWatch watch = machine.watch();
  const auto done = machine.measure(watch);
  ASSERT_TRUE(done.has_value());
  EXPECT_EQ(done->first, 0);
  EXPECT_NEAR(done->second, 0, 1e-9);
  EXPECT_EQ(machine.looked, 2u);
}

TEST(SpeedWatch, ALookServesTwiceIfTheNextMeasurementFollowsAtOnce) {
  Machine machine({1.0, 1.02, 0.98, 1.0});
  SpeedWatch watch = machine.watch();
  ASSERT_TRUE(machine.measure(watch).has_value());
  const auto next = machine.measure(watch);
  ASSERT_TRUE(next.has_value());
  EXPECT_NEAR(next->second, 0, 1e-9);
  EXPECT_EQ(machine.looked, 3u);
  machine.now = machine.now + 1s;
  ASSERT_TRUE(machine.measure(watch).has_value());
  EXPECT_EQ(machine.looked, 5u);
}

TEST(SpeedWatch, WaitsForAQuietMomentAndMeasuresThen) {
  Machine machine({1.3, 1.3, 1.2, 1.01, 1.03});
  SpeedWatch watch = machine.watch();
  const auto done = machine.measure(watch);
  ASSERT_TRUE(done.has_value());
  EXPECT_EQ(machine.measured, 1);
  EXPECT_NEAR(done->second, 0.02, 1e-9);
}

TEST(SpeedWatch, WhatWasDisturbedMeanwhileIsMeasuredAgain) {
  Machine machine({1.0, 1.3, 1.0, 1.0});
  SpeedWatch watch = machine.watch();
  const auto done = machine.measure(watch);
  ASSERT_TRUE(done.has_value());
  EXPECT_EQ(done->first, 1) << "the second one";
  EXPECT_EQ(machine.measured, 2);
}

TEST(SpeedWatch, AMachineThatStaysSlowIsMeasuredAllTheSameAndItIsSaidSo) {
  Machine machine({1.25});
  SpeedWatch watch = machine.watch();
  for (int i = 0; i < 20; ++i) {
    const auto done = machine.measure(watch);
    ASSERT_TRUE(done.has_value());
    EXPECT_NEAR(done->second, 0.25, 1e-9);
  }
  EXPECT_LE(machine.now - Instant{0}, 20 * 1s + SpeedWatch::kCredit + 20 * (1s + 200ms))
      << "it waits no longer than it measures, but for what it is given";
}

TEST(SpeedWatch, TheLeastDisturbedCountsWhereNoneIsUndisturbed) {
  Machine machine({1.0, 1.08, 1.0, 1.2});
  SpeedWatch watch = machine.watch();
  const auto done = machine.measure(watch);
  ASSERT_TRUE(done.has_value());
  EXPECT_GT(machine.measured, 1);
  EXPECT_EQ(done->first, 0) << "the first one";
  EXPECT_NEAR(done->second, 0.04, 1e-9);
}

TEST(SpeedWatch, ErrorsEndIt) {
  SpeedWatch watch(1.0, [] { return Instant{0}; });
  const auto bad = [] { return fail(ErrorCode::kAborted, "worker 1 died"); };
  const auto look = []() -> Result<double> { return 1.0; };
  EXPECT_FALSE(watch.steadily<int>(look, [&]() -> Result<int> { return bad(); }).has_value());
  EXPECT_FALSE(watch
                   .steadily<int>([&]() -> Result<double> { return bad(); },
                                  []() -> Result<int> { return 1; })
                   .has_value());
}

TEST(SpeedWatch, TheReferenceIsNotWhatADisturbanceTakes) {
  EXPECT_EQ(SpeedWatch::undisturbed({1.0, 1.3, 1.01, 1.3, 1.3, 1.02, 1.3, 1.3}), 1.02);
  EXPECT_EQ(SpeedWatch::undisturbed({2.0}), 2.0);
}

}  // namespace
}  // namespace sumcast::cli
