// Shards that are wrong on purpose: the checker must notice each of them, or its silence about the
// right one would mean nothing.
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "sim/random_world.h"

namespace sumcast::sim {
namespace {

/// The invariants ("I1", ...) that the checker found violated in a number of worlds.
std::set<std::string> found_by_the_checker(ShardRules& rules, Weather weather) {
  std::set<std::string> found;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    WorldConfig config = random_world(seed, weather);
    config.give_up_after = std::chrono::seconds(60);
    const Outcome outcome = World(config, &rules).run();
    if (!outcome.violation.empty()) found.insert(outcome.violation.substr(0, 2));
  }
  return found;
}

/// SwitchML's rule: a version bit instead of a phase.
struct TakesOldPhases : ShardRules {
  core::Verdict judge(core::SlotPool& pool, core::Contribution& in, Instant now) override {
    if (in.slot < pool.config().slots && ((in.phase ^ pool.phase(in.slot)) & 1u) == 0) {
      in.phase = pool.phase(in.slot);
    }
    return pool.on_contribution(in, now);
  }
};

/// A duplicate is counted in the place of a member that is still missing.
struct CountsTwice : ShardRules {
  core::Verdict judge(core::SlotPool& pool, core::Contribution& in, Instant now) override {
    const core::Verdict verdict = pool.on_contribution(in, now);
    if (verdict != core::Verdict::kDuplicate) return verdict;
    for (uint16_t m = 0; m < pool.config().members; ++m) {
      if (pool.has_counted(in.slot, m)) continue;
      core::Contribution twin = in;
      twin.member = m;
      return pool.on_contribution(twin, now);  // Reported as a second one of in.member.
    }
    return verdict;
  }
};

/// The result leaves when one member is still missing.
struct LeavesEarly : ShardRules {
  core::Verdict judge(core::SlotPool& pool, core::Contribution& in, Instant now) override {
    const core::Verdict verdict = pool.on_contribution(in, now);
    if (verdict != core::Verdict::kAccepted || pool.counted(in.slot) + 1 != pool.config().members) {
      return verdict;
    }
    for (uint16_t m = 0; m < pool.config().members; ++m) {
      if (pool.has_counted(in.slot, m)) continue;
      core::Contribution missing = in;
      missing.member = m;
      missing.payload = 0;
      return pool.on_contribution(missing, now);
    }
    return verdict;
  }
};

struct AdmitsAnotherLife : ShardRules {
  bool admits(const wire::Header&) const override { return true; }
};

struct ChangesARepeatedResult : ShardRules {
  uint64_t again(uint64_t sum) const override { return sum ^ 1u; }
};

struct NeverSendsAgain : ShardRules {
  bool sends_again() const override { return false; }
};

TEST(Mutation, AVersionBitInsteadOfAPhaseIsCaughtUnderReordering) {
  TakesOldPhases wrong;
  EXPECT_TRUE(found_by_the_checker(wrong, Weather::kShuffled).contains("I1"));
}

TEST(Mutation, CountingADuplicateIsCaught) {
  CountsTwice wrong;
  EXPECT_TRUE(found_by_the_checker(wrong, Weather::kShuffled).contains("I1"));
}

TEST(Mutation, AResultThatLeavesEarlyIsCaught) {
  LeavesEarly wrong;
  EXPECT_TRUE(found_by_the_checker(wrong, Weather::kCalm).contains("I2"));
}

TEST(Mutation, AdmittingAnotherIncarnationIsCaught) {
  AdmitsAnotherLife wrong;
  EXPECT_TRUE(found_by_the_checker(wrong, Weather::kStorm).contains("I5"));
}

TEST(Mutation, ARepeatedResultThatDiffersIsCaught) {
  ChangesARepeatedResult wrong;
  EXPECT_EQ(found_by_the_checker(wrong, Weather::kLoss), std::set<std::string>{"I4"});
}

TEST(Mutation, ALostResultThatIsNeverSentAgainIsCaught) {
  NeverSendsAgain wrong;
  EXPECT_EQ(found_by_the_checker(wrong, Weather::kLoss), std::set<std::string>{"I6"});
}

TEST(Mutation, TheRightShardIsNot) {
  ShardRules right;
  EXPECT_TRUE(found_by_the_checker(right, Weather::kStorm).empty());
}

}  // namespace
}  // namespace sumcast::sim
