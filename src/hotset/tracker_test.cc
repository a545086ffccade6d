#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/prng.h"
#include "hotset/hot_tracker.h"
#include "hotset/space_saving.h"

namespace sumcast::hotset {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

TEST(SpaceSaving, BoundsEveryHeatAndMissesNoFrequentKey) {
  SpaceSaving summary(64);
  std::map<uint64_t, double> truth;
  Prng prng(1);
  double total = 0;
  for (int i = 0; i < 50'000; ++i) {
    const auto key = static_cast<uint64_t>(std::pow(5000.0, prng.unit()));
    truth[key] += 1;
    total += 1;
    summary.add(key, 1);
  }
  double counted = 0;
  for (const auto& counter : summary.counters()) {
    EXPECT_LE(counter.certain(), truth[counter.key]);
    EXPECT_GE(counter.heat, truth[counter.key]);
    counted += counter.heat;
  }
  EXPECT_DOUBLE_EQ(counted, total);
  for (const auto& [key, count] : truth) {
    if (count > total / 64) {
      EXPECT_TRUE(summary.find(key)) << key;
    }
  }
}

TEST(SpaceSaving, ScalesHeatAndError) {
  SpaceSaving summary(1);
  summary.add(1, 3);
  summary.add(2, 1);
  summary.scale(0.5);
  EXPECT_FALSE(summary.find(1));
  EXPECT_DOUBLE_EQ(summary.find(2)->heat, 2);
  EXPECT_DOUBLE_EQ(summary.find(2)->error, 1.5);
  EXPECT_DOUBLE_EQ(summary.find(2)->certain(), 0.5);
}

TrackerOptions small_options() {
  TrackerOptions options;
  options.capacity = 2;
  options.counters = 16;
  options.half_life_rounds = 50;
  return options;
}

/// Rounds of one batch in which key k occurs with chance chances[k].
void run_rounds(HotTracker& tracker, const std::vector<double>& chances, int rounds, Prng& prng) {
  std::vector<uint64_t> batch;
  for (int round = 0; round < rounds; ++round) {
    batch.clear();
    for (uint64_t key = 0; key < chances.size(); ++key) {
      if (prng.chance(chances[key])) batch.push_back(key);
    }
    tracker.on_batch(batch);
    tracker.end_round();
  }
}

TEST(HotTracker, FindsTheHotKeys) {
  HotTracker tracker(small_options());
  EXPECT_TRUE(tracker.swap().is_empty());
  Prng prng(2);
  run_rounds(tracker, {0.1, 0.9, 0.2, 0.8}, 200, prng);
  const Swap swap = tracker.swap();
  EXPECT_THAT(swap.promoted, ElementsAre(1u, 3u));
  EXPECT_THAT(swap.demoted, IsEmpty());
  EXPECT_NEAR(tracker.chance(1), 0.9, 0.1);
  EXPECT_TRUE(tracker.swap().is_empty());
}

TEST(HotTracker, FollowsADrift) {
  HotTracker tracker(small_options());
  Prng prng(3);
  run_rounds(tracker, {0.9, 0.8, 0.1, 0.1}, 200, prng);
  EXPECT_THAT(tracker.swap().promoted, ElementsAre(0u, 1u));
  run_rounds(tracker, {0.1, 0.1, 0.9, 0.8}, 200, prng);
  const Swap swap = tracker.swap();
  EXPECT_THAT(swap.promoted, UnorderedElementsAre(2u, 3u));
  EXPECT_THAT(swap.demoted, UnorderedElementsAre(0u, 1u));
}

TEST(HotTracker, KeysOfNearlyEqualHeatDoNotTakeTurns) {
  HotTracker tracker(small_options());
  Prng prng(4);
  run_rounds(tracker, {0.9, 0.5, 0.5, 0.5}, 400, prng);
  tracker.swap();
  int swaps = 0;
  for (int i = 0; i < 50; ++i) {
    run_rounds(tracker, {0.9, 0.5, 0.55, 0.55}, 10, prng);
    swaps += tracker.swap().is_empty() ? 0 : 1;
  }
  EXPECT_LE(swaps, 3);
  run_rounds(tracker, {0.9, 0.5, 0.95, 0.5}, 300, prng);  // That is 1.9 times as hot.
  tracker.swap();
  EXPECT_TRUE(tracker.is_resident(2));
}

TEST(HotTracker, KeepsOnlyKeysThatPay) {
  TrackerOptions options = small_options();
  options.chance_min = 0.3;
  HotTracker tracker(options);
  Prng prng(5);
  run_rounds(tracker, {0.9, 0.1, 0.1}, 200, prng);
  EXPECT_THAT(tracker.swap().promoted, ElementsAre(0u));
  run_rounds(tracker, {0.05, 0.1, 0.1}, 400, prng);
  EXPECT_THAT(tracker.swap().demoted, ElementsAre(0u));
  EXPECT_EQ(tracker.residents(), 0u);
}

TEST(HotTracker, ASeedStandsUntilBetterIsSeen) {
  HotTracker tracker(small_options());
  tracker.seed(std::vector<uint64_t>{7, 8}, std::vector<double>{0.6, 0.5});
  Prng prng(6);
  run_rounds(tracker, {0.9}, 5, prng);  // Hot, but not for long enough.
  EXPECT_TRUE(tracker.swap().is_empty());
  run_rounds(tracker, {0.9}, 100, prng);
  const Swap swap = tracker.swap();
  EXPECT_THAT(swap.promoted, ElementsAre(0u));
  EXPECT_THAT(swap.demoted, ElementsAre(8u));
}

TEST(HotTracker, SwapsNoMoreThanAllowed) {
  TrackerOptions options = small_options();
  options.capacity = 4;
  options.swaps_max = 1;
  HotTracker tracker(options);
  Prng prng(7);
  run_rounds(tracker, {0.9, 0.8, 0.7, 0.6}, 100, prng);
  for (size_t i = 1; i <= 4; ++i) {
    EXPECT_EQ(tracker.swap().promoted.size(), 1u);
    EXPECT_EQ(tracker.residents(), i);
  }
}

TEST(HotTracker, CountsOverLongRuns) {
  TrackerOptions options = small_options();
  options.half_life_rounds = 0.1;  // Weights pass 1e100 after 34 rounds.
  HotTracker tracker(options);
  for (int round = 0; round < 1000; ++round) {
    tracker.on_batch(std::vector<uint64_t>{1, 2});
    tracker.end_round();
  }
  tracker.swap();
  EXPECT_TRUE(tracker.is_resident(1));
  EXPECT_NEAR(tracker.chance(2), 1.0, 1e-6);
}

}  // namespace
}  // namespace sumcast::hotset
