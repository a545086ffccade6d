// Away from the daemon and back, with everything that a job may have: batches ahead, two daemons,
// rows that come and go, checkpoints. The same bits as servers alone, where that is promised (P20:
// with batches ahead, if no step was under way when the daemon died). restless_test.cc: always.
#include <filesystem>

#include "sparse/test_daemon.h"

namespace sumcast::sparse {
namespace {

namespace fs = std::filesystem;

constexpr uint32_t kRoundsThere = 48;

/// What rank 0 does before a round.
using Events = std::map<uint32_t, std::function<void()>>;

/// Which kinds of operation a job has beside its rounds.
struct Journey {
  Options options;
  std::vector<uint64_t> hot;
  Events events;
  bool is_quiet = false;  ///< Nothing is under way around an event.
  uint32_t from = 0, to = kRoundsThere;
};

struct Arrived {
  Rows final;
  uint64_t failovers = 0, returns = 0;
};

void begin_batches(Worker& worker, const Options& options, uint32_t rank, uint32_t round) {
  ASSERT_TRUE(good(worker.pull(batch(rank, round))));
  for (uint32_t i = 1; i <= options.staleness; ++i) {
    ASSERT_TRUE(good(worker.announce(batch(rank, round + i))));
  }
}

std::vector<uint64_t> all_keys(const Journey& journey) {
  std::set<uint64_t> all;
  for (uint32_t rank = 0; rank < journey.options.workers; ++rank) {
    for (uint32_t round = 0; round < journey.to; ++round) {
      for (const uint64_t key : batch(rank, round)) all.insert(key);
    }
  }
  return {all.begin(), all.end()};
}

/// Rounds with flushes, saves and another hot set now and then.
void walk(Worker& worker, uint32_t rank, const Journey& journey) {
  const Options& options = journey.options;
  ASSERT_TRUE(good(worker.set_hot(journey.hot)));
  begin_batches(worker, options, rank, journey.from);
  for (uint32_t round = journey.from; round < journey.to; ++round) {
    if (const auto event = journey.events.find(round); event != journey.events.end()) {
      if (journey.is_quiet) meet(worker, options.workers);
      if (rank == 0) event->second();
      if (journey.is_quiet) meet(worker, options.workers);
    }
    const auto gradients = gradients_of(worker, rank, round, batch(rank, round));
    const uint32_t next = round + 1 + options.staleness;
    ASSERT_TRUE(good(worker.push_pull(gradients.data(), batch(rank, next))));
    if (!options.checkpoint_directory.empty() && round % 4 == 3) {
      ASSERT_TRUE(good(worker.save(round % 16 == 3, "state")));
    }
    if (round % 7 == 6) {
      ASSERT_TRUE(good(worker.flush()));
    }
    if (round % 11 != 10) continue;
    std::vector<uint64_t> other = journey.hot;
    if (!other.empty() && round % 2 == 0) other.pop_back();
    ASSERT_TRUE(good(worker.set_hot(other)));
    begin_batches(worker, options, rank, round + 1);
  }
}

Arrived travel(const Journey& journey, const JobSetup& setup = {}) {
  Arrived arrived;
  const std::vector<uint64_t> keys = all_keys(journey);
  const auto errors = run_job(
      journey.options,
      [&](Worker& worker, uint32_t rank) {
        walk(worker, rank, journey);
        std::vector<float> rows(keys.size() * 6);
        ASSERT_TRUE(good(worker.peek(keys, rows.data())));
        if (rank != 0) return;
        arrived.failovers = worker.counters().failovers;
        arrived.returns = worker.counters().returns;
        for (size_t i = 0; i < keys.size(); ++i) {
          arrived.final[keys[i]].assign(rows.data() + 6 * i, rows.data() + 6 * i + 6);
        }
      },
      setup);
  for (const std::string& error : errors) EXPECT_EQ(error, "");
  return arrived;
}

/// The same job with all keys on servers and no daemon.
Rows servers_alone(Journey journey) {
  journey.hot.clear();
  journey.events.clear();
  return travel(journey).final;
}

/// The first daemon dies twice and comes back twice.
Events there_and_back(Road& road) {
  const auto back = [&road] {
    road.first.emplace(road.first_address);
    road.await_return();
  };
  const auto away = [&road] { road.first->kill(); };
  return {{3, away}, {9, back}, {20, away}, {30, back}};
}

/// To the second daemon and back; then both die, and come back one after the other.
Events by_way_of_the_second(Road& road) {
  return {{3, [&road] { road.first->kill(); }},
          {8,
           [&road] {
             EXPECT_EQ(road.seat.load()->place(), "sumcastd at " + road.second_address);
             road.first.emplace(road.first_address);
             road.await_return();
           }},
          {18,
           [&road] {
             EXPECT_THAT(road.seat.load()->place(), testing::HasSubstr(road.first_address));
             road.second->kill();
             road.first->kill();
           }},
          {24,
           [&road] {
             EXPECT_EQ(road.seat.load()->place(), "the ranks themselves");
             road.second.emplace(road.second_address);
             road.await_return();
           }},
          {34, [&road] {
             EXPECT_THAT(road.seat.load()->place(), testing::HasSubstr(road.second_address));
             road.first.emplace(road.first_address);
             road.await_return();
           }}};
}

TEST(Journey, WithBatchesAheadNoBitChangesIfNothingWasUnderWay) {
  for (const uint32_t staleness : {1u, 4u}) {
    for (const bool has_second : {false, true}) {
      SCOPED_TRACE("staleness " + std::to_string(staleness) + (has_second ? ", two daemons" : ""));
      Road road;
      Journey journey{small(3, 2, table::OptimizerKind::kAdagrad), hot_keys(30), {}};
      journey.options.staleness = staleness;
      journey.events = has_second ? by_way_of_the_second(road) : there_and_back(road);
      journey.is_quiet = true;
      const Arrived arrived = travel(journey, road.setup(has_second));
      expect_equal_bits(arrived.final, servers_alone(journey));
      EXPECT_EQ(arrived.returns, has_second ? 3u : 2u);
      EXPECT_GE(arrived.failovers, 2u);
    }
  }
}

TEST(Journey, SynchronousRoundsChangeNoBitOverTwoDaemons) {
  for (const size_t hot : {size_t{0}, size_t{35}}) {
    Road road;
    const Journey journey{small(3, 2, table::OptimizerKind::kAdam), hot_keys(hot),
                          by_way_of_the_second(road)};
    const Arrived arrived = travel(journey, road.setup(true));
    expect_equal_bits(arrived.final, servers_alone(journey));
    EXPECT_EQ(arrived.returns, 3u);
  }
}

class LivesOnTheRoad : public ::testing::TestWithParam<table::Lifecycle> {};

TEST_P(LivesOnTheRoad, RowsComeAndGoAsOnServersAlone) {
  for (const uint32_t staleness : {0u, 2u}) {
    Road road;
    Journey journey{small(3, 2, table::OptimizerKind::kRowwiseAdagrad), hot_keys(25),
                    there_and_back(road)};
    journey.options.shape.life = GetParam();
    journey.options.staleness = staleness;
    journey.is_quiet = staleness != 0;
    const Arrived arrived = travel(journey, road.setup(false));
    expect_equal_bits(arrived.final, servers_alone(journey));
    EXPECT_EQ(arrived.returns, 2u);
  }
}

TEST_P(LivesOnTheRoad, ACheckpointTakenOnTheWayGoesOnOnOtherServersWithTheSameBits) {
  Road road;
  Journey journey{small(3, 2, table::OptimizerKind::kMomentum), hot_keys(25), there_and_back(road)};
  journey.options.shape.life = GetParam();
  Journey whole = journey;
  whole.to = kRoundsThere + 12;
  const Rows expected = servers_alone(whole);
  Options& options = journey.options;
  options.checkpoint_directory = testing::TempDir() + "journey_" + std::to_string(::getpid()) +
                                 "_" + std::to_string(GetParam().admit_after) + "_" +
                                 std::to_string(GetParam().evict_after);
  fs::remove_all(options.checkpoint_directory);
  fs::create_directories(options.checkpoint_directory);
  EXPECT_EQ(travel(journey, road.setup(false)).returns, 2u);
  options.restore = read_manifest(options.checkpoint_directory).value();
  ASSERT_TRUE(options.restore.has_value());
  EXPECT_GT(options.restore->parts.size(), 1u) << "increments";
  options.servers = 3, options.segments = 3;
  const Journey rest{options, {}, {}, false, kRoundsThere, kRoundsThere + 12};
  expect_equal_bits(travel(rest).final, expected);
  fs::remove_all(options.checkpoint_directory);
}

INSTANTIATE_TEST_SUITE_P(All, LivesOnTheRoad,
                         ::testing::Values(table::Lifecycle{},
                                           table::Lifecycle{.admit_after = 1, .evict_after = 3}),
                         [](const auto& one) {
                           return "Admit" + std::to_string(one.param.admit_after) + "Evict" +
                                  std::to_string(one.param.evict_after);
                         });

}  // namespace
}  // namespace sumcast::sparse
