#include "pipeline/tuner.h"

#include <gtest/gtest.h>

#include <cmath>
#include <deque>
#include <fstream>
#include <sstream>

#include "base/prng.h"

namespace sumcast::pipeline {
namespace {

using plan::Collective;

/// A world to be tuned in: one link that serves sums one after the other.
struct World {
  double compute_s = 0.010;
  double stolen_s = 0;       ///< More computing, if a sum runs beside it.
  double latency_s = 0.001;  ///< Of a sum, beyond what it keeps the link busy.
  double link_s = 0.005;     ///< Of a sum as native.
  double noise = 0;          ///< Relative, even.
  uint32_t seed = 1;

  double link_of(const Way& way) const {
    return link_s * (way.wire == WireFormat::kNative ? 1.0 : 0.5);
  }
};

/// Steps played through, one after the other: what a step is busy and takes, in the steady state.
StepTimes window_of(const World& world, Choice choice, const std::vector<Way>& ways, uint32_t steps,
                    Prng& prng) {
  double now = 0, link_free = 0, busy = 0, from = 0;
  std::deque<double> arrivals;
  const uint32_t settle = 4 * choice.width;
  for (uint32_t step = 0; step < settle + steps; ++step) {
    if (step == settle) from = now, busy = 0;
    const double factor = 1 + world.noise * (2 * prng.unit() - 1);
    const double computing = factor * (world.compute_s + (choice.width > 1 ? world.stolen_s : 0.0));
    busy += computing;
    now += computing;
    link_free = std::max(now, link_free) + world.link_of(ways[choice.way]);
    arrivals.push_back(link_free + world.latency_s);
    if (arrivals.size() < choice.width) continue;
    now = std::max(now, arrivals.front());
    arrivals.pop_front();
  }
  return {busy / steps, (now - from) / steps, 0};
}

struct Tuned {
  Choice last;
  uint32_t changes = 0;
  double step_s = 0;  ///< With the last choice.
};

/// Runs `windows` windows of `world`.
Tuned run(Tuner& tuner, const World& world, uint32_t windows,
          const std::vector<Way>& ways = {Way{}}) {
  Tuned result;
  Prng prng(world.seed);
  for (uint32_t i = 0; i < windows; ++i) {
    const StepTimes times = window_of(world, tuner.choice(), ways, tuner.window_steps(), prng);
    result.step_s = times.step_s;
    result.changes += tuner.observe(times).has_value();
  }
  result.last = tuner.choice();
  return result;
}

constexpr double kBytes = 4e6;

Tuner tuner_of(uint32_t width_max = 6, const TunerOptions& options = {}) {
  return Tuner(options, width_max, 4, kBytes);
}

double best_step_s(const World& world, uint32_t width_max) {
  double best = 1e9;
  for (uint32_t width = 1; width <= width_max; ++width) {
    Prng prng(1);
    World still = world;
    still.noise = 0;
    best = std::min(best, window_of(still, {width, 0}, {Way{}}, 64, prng).step_s);
  }
  return best;
}

TEST(Tuner, SettlesWithinAFewPerCentOfTheBestWidthWhateverTheWorld) {
  for (const double link_s : {0.0001, 0.002, 0.005, 0.009, 0.010, 0.011, 0.02, 0.04}) {
    for (const double latency_s : {0.0001, 0.004, 0.02, 0.045}) {
      for (const double stolen_s : {0.0, 0.002}) {
        for (const double noise : {0.0, 0.04}) {
          const World world{0.010, stolen_s, latency_s, link_s, noise};
          Tuner tuner = tuner_of();
          const Tuned tuned = run(tuner, world, 40);
          Prng prng(1);
          World still = world;
          still.noise = 0;
          const double got = window_of(still, tuned.last, {Way{}}, 64, prng).step_s;
          EXPECT_LE(got, 1.06 * best_step_s(world, 6))
              << "link " << link_s << ", latency " << latency_s << ", stolen " << stolen_s
              << ", noise " << noise << ": K = " << tuned.last.width;
        }
      }
    }
  }
}

TEST(Tuner, ALocalNetworkIsHiddenByTwoAndNothingWiderIsEvenTried) {
  Tuner tuner = tuner_of();
  const World world{0.010, 0, 0.0002, 0.020, 0};
  Prng prng(1);
  for (int i = 0; i < 50; ++i) {
    tuner.observe(window_of(world, tuner.choice(), {Way{}}, 16, prng));
    EXPECT_LE(tuner.choice().width, 2u);
  }
  EXPECT_EQ(tuner.choice().width, 2u);
}

TEST(Tuner, ALongPathTakesAsManyStepsAsHideItAndNoMore) {
  Tuner tuner = tuner_of();
  EXPECT_EQ(run(tuner, {0.010, 0, 0.027, 0.002, 0}, 40).last.width, 4u);
  Tuner narrow = tuner_of(3);
  EXPECT_EQ(run(narrow, {0.010, 0, 0.027, 0.002, 0}, 40).last.width, 3u);
}

TEST(Tuner, WhereASumIsNextToNothingGradientsStayFresh) {
  Tuner tuner = tuner_of();
  EXPECT_EQ(run(tuner, {0.010, 0, 0.0001, 0.0001, 0.02}, 60).last.width, 1u);
  // ... and where hiding it costs more than it takes.
  Tuner loaded = tuner_of();
  const Tuned tuned = run(loaded, {0.010, 0.004, 0.0001, 0.002, 0}, 60);
  EXPECT_EQ(tuned.last.width, 1u);
  EXPECT_EQ(tuned.changes, 2u);  // There and back.
}

TEST(Tuner, DoesNotFlapAtABoundary) {
  // Sums that are worth about what a change has to promise, in noise of the same size.
  for (uint32_t seed = 1; seed <= 20; ++seed) {
    for (const double sum_s : {0.0002, 0.0004, 0.0005, 0.0006, 0.0008}) {
      Tuner tuner = tuner_of();
      World world{0.010, 0, 0, sum_s, 0.04, seed};
      EXPECT_LE(run(tuner, world, 60).changes, 2u) << sum_s << ", seed " << seed;
    }
    // Between two and three.
    Tuner tuner = tuner_of();
    World world{0.010, 0, 0.0105, 0.0005, 0.04, seed};
    EXPECT_LE(run(tuner, world, 60).changes, 4u) << seed;
  }
}

TEST(Tuner, FollowsWhenComputingOrTheNetworkChanges) {
  Tuner tuner = tuner_of();
  World world{0.010, 0, 0.0002, 0.008, 0.02};
  EXPECT_EQ(run(tuner, world, 20).last.width, 2u);
  world.latency_s = 0.030;  // The path has become long ...
  EXPECT_GE(run(tuner, world, 150).last.width, 4u);
  world.latency_s = 0.0002;  // ... and short again.
  EXPECT_EQ(run(tuner, world, 150).last.width, 2u);
  world.compute_s = 0.1;  // Next to it a sum is little, but not nothing.
  EXPECT_EQ(run(tuner, world, 150).last.width, 2u);
  world.compute_s = 2;  // Now it is.
  EXPECT_EQ(run(tuner, world, 150).last.width, 1u);
  world.compute_s = 0.010;
  EXPECT_EQ(run(tuner, world, 20).last.width, 2u);
}

TEST(Tuner, OfTheWaysThatAreAllowedTheFirstThatIsFastEnoughIsTaken) {
  TunerOptions options;
  options.ways = {{Collective::kInNetwork, WireFormat::kNative},
                  {Collective::kInNetwork, WireFormat::kBF16}};
  Tuner slow(options, 2, 4, kBytes);
  const Tuned halved = run(slow, {0.010, 0, 0.0002, 0.020, 0.01}, 30, options.ways);
  EXPECT_EQ(halved.last, (Choice{2, 1}));
  Tuner fast(options, 2, 4, kBytes);
  const Tuned whole = run(fast, {0.010, 0, 0.0002, 0.008, 0.01}, 30, options.ways);
  EXPECT_EQ(whole.last, (Choice{2, 0}));
  // The network becomes slower under way, and fast again.
  EXPECT_EQ(run(fast, {0.010, 0, 0.0002, 0.020, 0.01}, 30, options.ways).last, (Choice{2, 1}));
  EXPECT_EQ(run(fast, {0.010, 0, 0.0002, 0.004, 0.01}, 200, options.ways).last, (Choice{2, 0}));
}

TEST(Tuner, BothLanguagesDecideAlike) {
  // Written by tests/python/test_tuner.py (courses()), which reads it too.
  std::ifstream file(SUMCAST_TUNER_COURSES);
  std::optional<Tuner> tuner;
  uint32_t changes = 0, windows = 0;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("course")) {
      tuner.emplace(tuner_of(5));
      continue;
    }
    StepTimes times;
    uint32_t width = 0;
    std::istringstream(line) >> times.busy_s >> times.step_s >> width;
    changes += tuner->observe(times).has_value();
    ASSERT_EQ(tuner->choice().width, width) << line;
    ++windows;
  }
  EXPECT_GT(changes, 8u);
  EXPECT_GT(windows, 300u);
}

TEST(Tuner, AWayThatBreaksItsPromiseIsLeftAgain) {
  TunerOptions options;
  options.ways = {{Collective::kInNetwork, WireFormat::kNative},
                  {Collective::kInNetwork, WireFormat::kBF16}};
  Tuner tuner(options, 2, 4, kBytes);
  Prng prng(1);
  uint32_t tried = 0;
  for (int i = 0; i < 100; ++i) {
    // Half the bytes take half as long again: an encoder that is too slow.
    World world{0.010, 0, 0.0002, 0.020, 0};
    if (tuner.choice().way == 1) world.link_s = 0.060;
    tried += tuner.observe(window_of(world, tuner.choice(), options.ways, 16, prng)).has_value();
  }
  EXPECT_EQ(tuner.choice(), (Choice{2, 0}));
  EXPECT_LE(tried, 4u);
}

TEST(Tuner, AloneOrWithoutTimesItStaysAsItIs) {
  Tuner alone(TunerOptions{}, 4, 1, kBytes);
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(alone.observe({0.01, 0.02, 0}).has_value());
  EXPECT_EQ(alone.choice().width, 1u);
  Tuner tuner = tuner_of();
  for (const StepTimes& times : {StepTimes{}, StepTimes{0.01, NAN, 0}, StepTimes{INFINITY, 1, 0}}) {
    EXPECT_FALSE(tuner.observe(times).has_value());
  }
  EXPECT_EQ(tuner.state().windows, 0u);
}

TEST(Tuner, RanksAreSeenTogetherTheBusiestCounts) {
  std::vector<double> sums(3 * kStepTimes, 0.0);
  const StepTimes of[] = {{0.010, 0.021, 0}, {0.019, 0.021, 0.003}, {0.012, 0.021, 0.002}};
  for (uint32_t rank = 0; rank < 3; ++rank) {
    const auto share = share_of(of[rank], rank, 3);
    ASSERT_EQ(share.size(), sums.size());
    for (size_t i = 0; i < sums.size(); ++i) sums[i] += share[i];
  }
  const StepTimes all = joined(sums);
  EXPECT_DOUBLE_EQ(all.busy_s, 0.019);
  EXPECT_DOUBLE_EQ(all.step_s, 0.021);
  EXPECT_DOUBLE_EQ(all.drained_s, 0.002);
}

TEST(Tuner, GoesOnFromItsStateAsIfNothingHadHappened) {
  const World world{0.010, 0.001, 0.020, 0.004, 0.03};
  Tuner whole = tuner_of(), first = tuner_of(), second = tuner_of();
  Prng one(3), two(3);
  for (int i = 0; i < 30; ++i) {
    Tuner& tuner = i < 7 ? first : second;
    if (i == 7) {
      ASSERT_TRUE(second.restore(first.state()));
    }
    whole.observe(window_of(world, whole.choice(), {Way{}}, whole.window_steps(), one));
    tuner.observe(window_of(world, tuner.choice(), {Way{}}, tuner.window_steps(), two));
    EXPECT_EQ(tuner.choice(), whole.choice());
  }
  TunerState wrong = whole.state();
  wrong.choice.width = 7;
  EXPECT_FALSE(second.restore(wrong));
  wrong = whole.state();
  wrong.lines.clear();
  EXPECT_FALSE(second.restore(wrong));
}

}  // namespace
}  // namespace sumcast::pipeline
