// Thousands of worlds from seeds, each watched by the checker after every event. A failure prints
// the seed and how to run that world alone.
#include <gtest/gtest.h>

#include <ostream>
#include <string>

#include "sim/random_world.h"
#include "sim/seeds.h"

namespace sumcast::sim {

/// For gtest's messages.
static void PrintTo(Weather weather, std::ostream* out) { *out << name_of(weather); }

namespace {

class Worlds : public testing::TestWithParam<Weather> {};

TEST_P(Worlds, SumEachChunkOnceAndFinish) {
  const SeedChoice& choice = seed_choice();
  const uint64_t first = choice.only.value_or(choice.first);
  const uint64_t count = choice.only ? 1 : choice.worlds;
  WorkerShell::Counters recovered;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    const Outcome outcome = World(random_world(seed, GetParam())).run();
    ASSERT_TRUE(outcome.violation.empty() && outcome.complete)
        << outcome.violation << "\n  rerun with: SUMCAST_SIM_SEED=" << seed
        << " sim_test --gtest_filter='*SumEachChunkOnceAndFinish/" << name_of(GetParam()) << "'";
    recovered.repeats += outcome.workers.repeats;
    recovered.probes += outcome.workers.probes;
    recovered.gaps += outcome.workers.gaps;
  }
  if (choice.only || GetParam() == Weather::kCalm) return;
  // The weather was bad enough to need every kind of recovery.
  EXPECT_GT(recovered.repeats, 0u);
  EXPECT_GT(recovered.probes, 0u);
  EXPECT_GT(recovered.gaps, 0u);
}

INSTANTIATE_TEST_SUITE_P(All, Worlds,
                         testing::Values(Weather::kCalm, Weather::kLoss, Weather::kShuffled,
                                         Weather::kBursts, Weather::kOutages, Weather::kStorm),
                         [](const auto& made) { return std::string(name_of(made.param)); });

TEST(World, IsTheSameTwiceForTheSameSeed) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const Outcome a = World(random_world(seed, Weather::kStorm)).run();
    const Outcome b = World(random_world(seed, Weather::kStorm)).run();
    EXPECT_EQ(a.finished_at, b.finished_at);
    EXPECT_EQ(a.uplinks.sent, b.uplinks.sent);
    EXPECT_EQ(a.downlinks.bytes, b.downlinks.bytes);
    EXPECT_EQ(a.workers.repeats, b.workers.repeats);
  }
}

}  // namespace
}  // namespace sumcast::sim
