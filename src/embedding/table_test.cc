// Tables through their public API: what ranks train is what one machine would compute.
#include <cmath>
#include <cstring>
#include <filesystem>
#include <set>

#include "base/prng.h"
#include "embedding/test_ranks.h"
#include "table/row_table.h"

namespace sumcast {
namespace {

using ::testing::HasSubstr;
using Rows = std::map<uint64_t, std::vector<float>>;

constexpr uint32_t kWidth = 5;

TableOptions small(const std::string& optimizer) {
  TableOptions options;
  options.width = kWidth;
  options.optimizer = optimizer;
  options.rate = 0.05f;
  options.init_scale = 0.1f;
  return options;
}

/// A few keys that all ranks like, the extremes, and some of a rank's own.
std::vector<uint64_t> batch(uint32_t rank, uint32_t round) {
  Prng random(rank * 1000 + round + 1);
  std::set<uint64_t> keys;
  for (int i = 0; i < 20; ++i) keys.insert(random.below(30) * 0x123456789ABCDEFu);
  for (int i = 0; i < 20; ++i) keys.insert(1000 + random.below(2000));
  if (round % 3 == 0) keys.insert({0, UINT64_MAX});
  if ((rank + round) % 5 == 0) keys.clear();
  return {keys.begin(), keys.end()};
}

/// Depends on the row, so that a stale or doubled one shows.
void add_gradient(uint32_t rank, uint32_t round, uint64_t key, const float* row, float* out) {
  Prng random(table::mix_key(key) ^ (rank * 7919 + round));
  for (uint32_t i = 0; i < kWidth; ++i) {
    out[i] = static_cast<float>(random.unit() - 0.5) + 0.3f * row[i];
  }
}

std::vector<float> gradients_of(uint32_t rank, uint32_t round, const std::vector<uint64_t>& keys,
                                const std::vector<float>& rows) {
  std::vector<float> gradients(keys.size() * kWidth);
  for (size_t i = 0; i < keys.size(); ++i) {
    add_gradient(rank, round, keys[i], &rows[i * kWidth], &gradients[i * kWidth]);
  }
  return gradients;
}

/// Rounds one after the other, gradients added in rank order.
Rows reference(const TableOptions& options, uint32_t world, uint32_t rounds) {
  table::TableShape shape;
  shape.width = kWidth;
  shape.init_scale = options.init_scale;
  shape.seed = options.seed;
  shape.optimizer.kind = *table::optimizer_from_name(options.optimizer);
  shape.optimizer.rate = options.rate;
  table::RowTable rows(shape);
  for (uint32_t round = 0; round < rounds; ++round) {
    Rows sums;
    for (uint32_t rank = 0; rank < world; ++rank) {
      for (const uint64_t key : batch(rank, round)) {
        float gradient[kWidth];
        add_gradient(rank, round, key, rows.record(rows.find_or_make(key)), gradient);
        auto [at, fresh] = sums.try_emplace(key, gradient, gradient + kWidth);
        for (uint32_t i = 0; i < kWidth && !fresh; ++i) at->second[i] += gradient[i];
      }
    }
    for (const auto& [key, sum] : sums) rows.step(rows.find(key), sum.data());
  }
  Rows all;
  for (uint32_t row = 0; row < rows.size(); ++row) {
    all[rows.key(row)].assign(rows.record(row), rows.record(row) + kWidth);
  }
  return all;
}

std::vector<uint64_t> keys_in(const Rows& rows) {
  std::vector<uint64_t> keys;
  for (const auto& [key, row] : rows) keys.push_back(key);
  return keys;
}

void expect_rows(Table& table, const Rows& wanted) {
  const std::vector<uint64_t> keys = keys_in(wanted);
  std::vector<float> rows(keys.size() * kWidth);
  const auto peeked = table.peek(keys, rows.data());
  ASSERT_TRUE(peeked.has_value()) << peeked.error().what;
  size_t at = 0;
  for (const auto& [key, row] : wanted) {
    EXPECT_EQ(std::memcmp(&rows[at], row.data(), kWidth * sizeof(float)), 0) << key;
    at += kWidth;
  }
}

/// @param ahead  the next keys come with the push.
void train(Table& table, uint32_t rank, uint32_t from, uint32_t until, bool ahead) {
  std::vector<float> rows;
  const auto pull = [&](uint32_t round) {
    const auto keys = batch(rank, round);
    rows.resize(keys.size() * kWidth);
    const auto pulled = table.pull(keys, rows.data());
    ASSERT_TRUE(pulled.has_value()) << pulled.error().what;
  };
  for (uint32_t round = from; round < until; ++round) {
    if (!ahead || round == from) pull(round);
    const auto gradients = gradients_of(rank, round, batch(rank, round), rows);
    if (!ahead || round + 1 == until) {
      ASSERT_TRUE(table.push(gradients).has_value());
      continue;
    }
    const auto next = batch(rank, round + 1);
    rows.resize(next.size() * kWidth);
    ASSERT_TRUE(table.push(gradients, next, rows.data()).has_value());
  }
}

TEST(Table, TrainsAsOneMachineWouldWhateverTheRanksAndServers) {
  for (const auto& [world, servers] : {std::pair{1u, 1u}, {2u, 1u}, {3u, 0u}}) {
    for (const bool ahead : {false, true}) {
      TableOptions options = small("adagrad");
      options.servers = servers;
      const Rows wanted = reference(options, world, 7);
      with_tables({.world = world}, options, [&](Table& table, uint32_t rank) {
        train(table, rank, 0, 7, ahead);
        expect_rows(table, wanted);
        EXPECT_GE(table.counters().rounds, ahead ? 8u : 14u);
      });
    }
  }
}

TEST(Table, RoundedRowsAreWhatIsPulledHotAndColdAndPeekingIsExact) {
  TableOptions options = small("adagrad");
  options.row_wire = WireFormat::kInt8;
  Rows cold, hot;
  for (Rows* const final : {&cold, &hot}) {
    with_tables({.world = 2}, options, [&](Table& table, uint32_t rank) {
      const std::vector<uint64_t> keys = keys_in(reference(options, 2, 6));
      if (final == &hot) {
        ASSERT_TRUE(table.set_hot(std::span(keys).first(keys.size() / 2)).has_value());
      }
      train(table, rank, 0, 6, true);
      std::vector<float> exact(keys.size() * kWidth), pulled(exact.size());
      ASSERT_TRUE(table.peek(keys, exact.data()).has_value());
      ASSERT_TRUE(table.pull(keys, pulled.data()).has_value());
      EXPECT_NE(pulled, exact);
      for (size_t i = 0; i < keys.size(); ++i) {
        float largest = 0;
        for (size_t lane = i * kWidth; lane < (i + 1) * kWidth; ++lane) {
          largest = std::max(largest, std::abs(exact[lane]));
        }
        for (size_t lane = i * kWidth; lane < (i + 1) * kWidth; ++lane) {
          EXPECT_LE(std::abs(pulled[lane] - exact[lane]), largest / 251) << keys[i];
        }
        if (rank == 0) (*final)[keys[i]].assign(&exact[i * kWidth], &exact[i * kWidth] + kWidth);
      }
    });
  }
  EXPECT_EQ(cold, hot);
}

TEST(Table, HotKeysGiveTheSameBits) {
  const TableOptions options = small("adam");
  const Rows wanted = reference(options, 2, 8);
  with_tables({.world = 2}, options, [&](Table& table, uint32_t rank) {
    std::vector<uint64_t> hot;
    for (uint64_t i = 0; i < 30; ++i) hot.push_back(i * 0x123456789ABCDEFu);
    ASSERT_TRUE(table.set_hot(hot).has_value());
    train(table, rank, 0, 4, true);
    EXPECT_GT(table.counters().hot_pushed, 0u);
    ASSERT_TRUE(table.set_hot({}).has_value());
    train(table, rank, 4, 8, false);
    expect_rows(table, wanted);
  });
}

TEST(Table, FollowsWhatIsHot) {
  TableOptions options = small("sgd");
  options.hot_max = 16;
  options.track = 3;
  options.servers = 1;  // Else the model of links sees nothing to save.
  const Rows wanted = reference(options, 3, 10);
  with_tables({.world = 3}, options, [&](Table& table, uint32_t rank) {
    train(table, rank, 0, 10, true);
    expect_rows(table, wanted);
    EXPECT_LE(table.counters().hot_keys, 16u);
    EXPECT_GT(table.counters().hot_changes, 0u);
    EXPECT_GT(table.counters().hot_moved, 0u);
  });
}

TEST(Table, APeekBetweenPullAndPushChangesNothing) {
  const TableOptions options = small("momentum");
  const Rows wanted = reference(options, 2, 1);
  with_tables({.world = 2}, options, [&](Table& table, uint32_t rank) {
    const auto keys = batch(rank, 0);
    std::vector<float> rows(keys.size() * kWidth), seen(kWidth);
    ASSERT_TRUE(table.pull(keys, rows.data()).has_value());
    const uint64_t other = 77;
    ASSERT_TRUE(table.peek(std::span(&other, 1), seen.data()).has_value());
    EXPECT_EQ(table.keys(), keys.size());
    ASSERT_TRUE(table.push(gradients_of(rank, 0, keys, rows)).has_value());
    expect_rows(table, wanted);
  });
}

TEST(Table, GoesOnFromACheckpointOnOtherNumbersOfRanks) {
  const auto folder =
      std::filesystem::temp_directory_path() / ("sumcast-table-" + std::to_string(::getpid()));
  TableOptions options = small("adam");
  options.checkpoint_directory = folder / "made on the way";
  const Rows wanted = reference(options, 2, 6);
  with_tables({.world = 2}, options, [&](Table& table, uint32_t rank) {
    EXPECT_FALSE(table.restored().has_value());
    train(table, rank, 0, 3, false);
    ASSERT_TRUE(table.save(true, rank == 0 ? "half" : "of no interest").has_value());
    train(table, rank, 3, 6, false);
    const auto saved = table.save(false, rank == 0 ? "way" : "");
    ASSERT_TRUE(saved.has_value()) << saved.error().what;
  });
  const auto saved = read_table(options.checkpoint_directory);
  ASSERT_TRUE(saved.has_value()) << saved.error().what;
  EXPECT_EQ(saved->keys, keys_in(wanted));
  EXPECT_EQ(saved->state, "way");
  EXPECT_EQ(saved->number, 2u);
  EXPECT_EQ(saved->state_lanes, 2 * kWidth + 2);
  EXPECT_EQ(std::memcmp(saved->records.data(), wanted.begin()->second.data(), kWidth * 4), 0);
  options.resume = true;
  with_tables({.world = 1}, options, [&](Table& table, uint32_t) {
    EXPECT_EQ(table.restored(), "way");
    expect_rows(table, wanted);
  });
  options.resume = false;
  with_opened({.world = 2}, options, [&](Result<std::unique_ptr<Table>> table, uint32_t) {
    ASSERT_FALSE(table.has_value());
    EXPECT_THAT(table.error().what, HasSubstr("holds a checkpoint"));
  });
  std::filesystem::remove_all(folder);
  EXPECT_THAT(read_table(folder).error().what, HasSubstr("holds no checkpoint"));
}

TEST(Table, ACheckpointThatOneRankCannotOpenIsAnErrorOnAll) {
  TableOptions options = small("sgd");
  const TestJob setup{.world = 2, .change = [](TableOptions& mine, uint32_t rank) {
                        mine.checkpoint_directory = rank == 1 ? "/proc/nothing/here" : "/tmp";
                      }};
  with_opened(setup, options, [&](Result<std::unique_ptr<Table>> table, uint32_t) {
    ASSERT_FALSE(table.has_value());
    EXPECT_THAT(table.error().what, HasSubstr("/proc/nothing/here"));
  });
}

TEST(Table, RanksThatAskForDifferentTablesAllHearOfIt) {
  const TestJob setup{.world = 2,
                      .change = [](TableOptions& mine, uint32_t rank) { mine.width += rank; }};
  with_opened(setup, small("sgd"), [&](Result<std::unique_ptr<Table>> table, uint32_t) {
    ASSERT_FALSE(table.has_value());
    EXPECT_EQ(table.error().code, ErrorCode::kMismatch);
  });
}

TEST(Table, RanksThatCallDifferentThingsAllHearOfIt) {
  with_tables({.world = 2}, small("sgd"), [&](Table& table, uint32_t rank) {
    const uint64_t key = 5;
    std::vector<float> row(kWidth);
    const auto done = rank == 0 ? table.pull(std::span(&key, 1), row.data())
                                : table.peek(std::span(&key, 1), row.data());
    ASSERT_FALSE(done.has_value());
    EXPECT_THAT(done.error().what, HasSubstr("different things"));
    EXPECT_EQ(table.push({}).error().what, done.error().what);
  });
}

TEST(Table, RefusesBadArgumentsAndGoesOn) {
  with_tables({.world = 1}, small("sgd"), [&](Table& table, uint32_t) {
    const std::vector<uint64_t> twice = {9, 4, 9};
    std::vector<float> rows(3 * kWidth);
    EXPECT_THAT(table.pull(twice, rows.data()).error().what, HasSubstr("key 9 comes twice"));
    EXPECT_THAT(table.set_hot(twice).error().what, HasSubstr("key 9 comes twice"));
    const std::vector<uint64_t> keys = {9, 4};
    EXPECT_EQ(table.pull(keys, nullptr).error().code, ErrorCode::kInvalidArgument);
    ASSERT_TRUE(table.pull(keys, rows.data()).has_value());
    EXPECT_THAT(table.push(rows).error().what, HasSubstr("15 lanes of gradients, and 2 current"));
    EXPECT_THAT(table.save(true, "").error().what, HasSubstr("no checkpoint directory"));
    EXPECT_TRUE(table.push(std::span(rows).first(2 * kWidth)).has_value());
  });
  TableOptions wrong = small("sgt");
  EXPECT_THAT(Table::open({}, wrong).error().what, HasSubstr("\"sgt\"; there are sgd, momentum"));
  wrong = small("sgd");
  wrong.servers = 2;
  EXPECT_THAT(Table::open({}, wrong).error().what, HasSubstr("2 servers in 1 ranks"));
  wrong = small("adam");
  wrong.epsilon = 0;
  EXPECT_THAT(Table::open({}, wrong).error().what, HasSubstr("epsilon"));
}

TEST(Table, AnAbortEndsWaitingCallsOnAllRanks) {
  with_tables({.world = 2}, small("sgd"), [&](Table& table, uint32_t rank) {
    if (rank == 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      table.abort("enough of it");
    }
    const auto done = table.pull({}, nullptr);
    ASSERT_FALSE(done.has_value());
    EXPECT_THAT(done.error().what, HasSubstr("enough of it"));
  });
}

TEST(Table, AnAbortEndsACallThatWaitsForOtherWorkers) {
  with_tables({.world = 2}, small("sgd"), [&](Table& table, uint32_t rank) {
    if (rank == 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      table.abort("enough of it");
      return;
    }
    const std::vector<uint64_t> keys = {1, 2};
    const auto done = table.set_hot(keys);
    ASSERT_FALSE(done.has_value());
    EXPECT_THAT(done.error().what, HasSubstr("enough of it"));
  });
}

TEST(Table, ARankThatLeavesIsAnErrorForThoseThatGoOn) {
  with_opened({.world = 2}, small("sgd"), [&](auto table, uint32_t rank) {
    ASSERT_TRUE(table.has_value()) << table.error().what;
    if (rank == 1) {
      table->reset();
      return;
    }
    const auto done = (*table)->pull({}, nullptr);
    ASSERT_FALSE(done.has_value());
    EXPECT_NE(done.error().code, ErrorCode::kTimeout) << done.error().what;
  });
}

TEST(Table, RowsAreAdmittedAndEvictedAndRatesChange) {
  TableOptions options;
  options.width = 2;
  options.rate = 1;
  options.admit_after = 1;
  options.evict_after = 3;
  options.max_rows = 100;
  auto table = Table::open({}, options);
  ASSERT_TRUE(table.has_value()) << table.error().what;
  const std::vector<uint64_t> key = {7}, other = {8};
  const std::vector<float> ones = {1, 1};
  std::vector<float> row(2);
  const auto train = [&](const std::vector<uint64_t>& keys) {
    ASSERT_TRUE((*table)->pull(keys, row.data()));
    ASSERT_TRUE((*table)->push(ones));
  };
  const auto read = [&] {
    EXPECT_TRUE((*table)->peek(key, row.data()));
    return row[0];
  };
  train(key);
  EXPECT_EQ(read(), 0) << "counted, and dropped";
  train(key);
  EXPECT_EQ(read(), -1);
  ASSERT_TRUE((*table)->set_rate(0.25f));
  EXPECT_FALSE((*table)->set_rate(-1).has_value());
  train(key);
  EXPECT_EQ(read(), -1.25f);
  for (int i = 0; i < 2; ++i) train(other);
  EXPECT_EQ(read(), -1.25f);
  EXPECT_EQ((*table)->counters().rows_held, 2u);
  train(other);
  EXPECT_EQ(read(), 0) << "as new";
  EXPECT_EQ((*table)->counters().rows_held, 1u);
}

}  // namespace
}  // namespace sumcast
