// Rows that come and go (P24): the rules, their order, and jobs that follow them on every path.
#include <filesystem>

#include "sparse/living_rows.h"
#include "sparse/rows_file.h"
#include "sparse/segment.h"
#include "sparse/test_job.h"

namespace sumcast::sparse {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// A table of its own, of which keys are what matters.
class Living {
 public:
  Living(table::Lifecycle life, uint64_t rows_max, uint32_t candidates_max = 100)
      : shape_(shape_of(life, rows_max)),
        table_(shape_of(life, UINT32_MAX - 1)),
        rows_(shape_, candidates_max, true, table_) {}

  Result<void> update(uint32_t now, std::vector<uint64_t> keys) {
    auto done = rows_.update(keys, now);
    if (done) rows_.sweep(now);
    return done;
  }
  std::vector<uint64_t> held() const {
    std::vector<uint64_t> keys;
    for (uint64_t key = 0; key < 50; ++key) {
      if (table_.find(key) != table::RowTable::kNone) keys.push_back(key);
    }
    return keys;
  }
  LivingRows& rows() { return rows_; }
  table::RowTable& table() { return table_; }
  const table::TableShape& shape() const { return shape_; }

  static table::TableShape shape_of(table::Lifecycle life, uint64_t rows_max) {
    table::TableShape shape;
    shape.width = 2;
    shape.init_scale = 0.5f;
    shape.rows_max = rows_max;
    shape.life = life;
    return shape;
  }

 private:
  table::TableShape shape_;
  table::RowTable table_;
  LivingRows rows_;
};

TEST(LivingRows, AKeyGetsItsRowBehindAsManyUpdatesAsWereAskedFor) {
  Living living({.admit_after = 2}, 100);
  ASSERT_TRUE(living.update(1, {7, 8, 7}));  // Two workers are one update.
  ASSERT_TRUE(living.update(2, {7}));
  EXPECT_THAT(living.held(), ElementsAre());
  EXPECT_EQ(living.rows().candidates(), 2u);
  ASSERT_TRUE(living.update(3, {7}));
  EXPECT_THAT(living.held(), ElementsAre(7));
  EXPECT_EQ(living.rows().candidates(), 1u);
  ASSERT_TRUE(living.update(900, {8}));
  ASSERT_TRUE(living.update(901, {8}));
  EXPECT_THAT(living.held(), ElementsAre(7, 8)) << "counts do not age unless rows do";
}

TEST(LivingRows, WhatHasNoUpdateForSoLongIsAsNew) {
  Living living({.admit_after = 1, .evict_after = 3}, 100);
  ASSERT_TRUE(living.update(1, {1, 2, 3}));
  ASSERT_TRUE(living.update(2, {1, 2}));
  living.table().record(living.table().find(1))[0] = 42;
  ASSERT_TRUE(living.update(3, {}));
  EXPECT_EQ(living.rows().candidates(), 1u);
  ASSERT_TRUE(living.update(4, {1}));  // Three steps after step 1: the candidate is gone.
  EXPECT_EQ(living.rows().candidates(), 0u);
  EXPECT_THAT(living.held(), ElementsAre(1, 2));
  ASSERT_TRUE(living.update(5, {}));
  EXPECT_THAT(living.held(), ElementsAre(1));
  ASSERT_TRUE(living.update(7, {}));
  EXPECT_THAT(living.held(), ElementsAre());
  ASSERT_TRUE(living.update(8, {1}));
  EXPECT_THAT(living.held(), ElementsAre()) << "it is counted anew";
  ASSERT_TRUE(living.update(9, {1}));
  ASSERT_THAT(living.held(), ElementsAre(1));
  std::vector<float> fresh(living.shape().record_lanes());
  living.shape().make_record(1, fresh.data());
  EXPECT_EQ(living.table().record(living.table().find(1))[0], fresh[0]);
}

TEST(LivingRows, AFullTableMakesRoomByTheRowTouchedLongestAgo) {
  Living living({.evict_after = 1000}, 3);
  ASSERT_TRUE(living.update(1, {9, 5, 7}));
  ASSERT_TRUE(living.update(2, {5}));
  ASSERT_TRUE(living.update(3, {20}));  // 7 and 9 are equally old.
  EXPECT_THAT(living.held(), ElementsAre(5, 9, 20));
  ASSERT_TRUE(living.update(4, {9, 21}));  // 9 is touched in this step.
  EXPECT_THAT(living.held(), ElementsAre(9, 20, 21));
  ASSERT_TRUE(living.update(5, {22, 23, 24}));
  EXPECT_THAT(living.held(), ElementsAre(22, 23, 24));
  const auto full = living.update(6, {22, 30, 31, 32});
  ASSERT_FALSE(full.has_value());
  EXPECT_THAT(full.error().what, HasSubstr("a single step needs more"));
}

/// Slower workers of an asynchronous job update in the time of the furthest one.
TEST(LivingRows, RowsOfTheSameTimeMayGoIfThisUpdateDoesNotTouchThem) {
  Living living({.evict_after = 1000}, 3);
  ASSERT_TRUE(living.update(5, {1, 2, 3}));
  ASSERT_TRUE(living.update(5, {1, 4}));
  EXPECT_THAT(living.held(), ElementsAre(1, 3, 4));
  ASSERT_TRUE(living.update(5, {6, 7}));
  EXPECT_THAT(living.held(), ElementsAre(4, 6, 7));
}

/// After a loss a step is told again: one that failed must not count as done.
TEST(LivingRows, AStepThatFindsNoRoomIsNotCommitted) {
  Options options;
  options.shape = Living::shape_of({.admit_after = 1}, 1);
  Segment segment(options);
  const std::vector<uint64_t> keys = {1, 2};
  const std::vector<float> ones(2 * keys.size(), 1.0f);
  const auto step = [&](uint64_t number) -> Result<void> {
    segment.forget_round();
    if (auto in = segment.add_gradients_of(0, keys, std::as_bytes(std::span(ones))); !in) return in;
    return segment.apply(number, 0.1f);
  };
  ASSERT_TRUE(step(1));  // Counted.
  for (int again = 0; again < 2; ++again) {
    const auto full = step(2);
    ASSERT_FALSE(full.has_value());
    EXPECT_THAT(full.error().what, HasSubstr("the table is full"));
    EXPECT_EQ(segment.committed(0), 1u);
  }
}

TEST(LivingRows, AFullTableWhoseRowsMayNotGoSaysSo) {
  Living living({.admit_after = 1}, 1);
  ASSERT_TRUE(living.update(1, {1, 2}));
  ASSERT_TRUE(living.update(2, {1}));
  const auto full = living.update(3, {2});
  ASSERT_FALSE(full.has_value());
  EXPECT_EQ(full.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(full.error().what, HasSubstr("the table is full: 1 rows in this segment"));
}

/// The bound of the counting: a key is late only if that many others came in between.
TEST(LivingRows, CountsAreExactAsLongAsCandidatesHaveRoomAndNeverTooHigh) {
  Living living({.admit_after = 3}, 1000, 4);
  for (uint32_t step = 1; step <= 3; ++step) ASSERT_TRUE(living.update(step, {1}));
  ASSERT_TRUE(living.update(4, {10, 11, 12}));
  EXPECT_EQ(living.rows().candidates(), 4u);
  ASSERT_TRUE(living.update(5, {1}));
  EXPECT_THAT(living.held(), ElementsAre(1)) << "three others have not pushed it out";
  ASSERT_TRUE(living.update(6, {13, 14, 15}));  // 10 and 11 make room.
  EXPECT_EQ(living.rows().candidates(), 4u);
  for (uint32_t step = 7; step <= 9; ++step) ASSERT_TRUE(living.update(step, {10}));
  EXPECT_THAT(living.held(), ElementsAre(1)) << "its first update is forgotten";
  ASSERT_TRUE(living.update(10, {10}));
  EXPECT_THAT(living.held(), ElementsAre(1, 10));
}

TEST(LivingRows, WhatACheckpointDoesNotHoldAnyMoreIsNamedUntilNobodyAsks) {
  Living living({.evict_after = 100}, 2);
  const auto changed = [&](uint32_t base) {
    std::vector<std::pair<uint64_t, uint32_t>> all;
    living.rows().each_changed(base, [&](uint64_t key, const float* record) {
      all.emplace_back(key, living.shape().history(record).count);
    });
    EXPECT_EQ(all.size(), living.rows().count_changed(base));
    return all;
  };
  using Changes = std::vector<std::pair<uint64_t, uint32_t>>;
  ASSERT_TRUE(living.update(1, {1, 2}));
  ASSERT_TRUE(living.update(2, {2, 3}));  // 1 was in no checkpoint.
  EXPECT_EQ(changed(0), (Changes{{2, 1}, {3, 1}}));
  living.rows().note_checkpoint(1);
  ASSERT_TRUE(living.update(3, {3, 4}));
  EXPECT_EQ(changed(1), (Changes{{2, 0}, {3, 1}, {4, 1}}));
  EXPECT_EQ(changed(0), (Changes{{3, 1}, {4, 1}}));
  living.rows().note_checkpoint(2);
  living.rows().forget_before(1);
  EXPECT_EQ(changed(1), (Changes{{2, 0}, {3, 1}, {4, 1}})) << "the second did not come to stand";
  living.rows().forget_before(2);
  EXPECT_EQ(changed(1), (Changes{{3, 1}, {4, 1}}));
  EXPECT_EQ(changed(2), (Changes{}));
}

// ---- jobs -------------------------------------------------------------------------------------

constexpr uint32_t kRounds = 14;

/// What one machine would compute, key by key by the rule.
struct Reference {
  explicit Reference(const Options& options) : options_(options), life_(options.shape.life) {}

  void step(uint32_t round) {
    ++now_;
    std::map<uint64_t, std::vector<float>> sums;
    for (uint32_t rank = 0; rank < options_.workers; ++rank) {
      for (const uint64_t key : batch(rank, round)) {
        float gradient[6];
        gradient_of(rank, round, key, record(key).data(), gradient);
        auto [at, fresh] = sums.try_emplace(key, gradient, gradient + 6);
        for (int i = 0; i < 6 && !fresh; ++i) at->second[i] += gradient[i];
      }
    }
    for (const auto& [key, sum] : sums) {
      std::vector<float>& at = record(key);
      if (++counts_[key] > life_.admit_after) {
        options_.shape.optimizer.step(at.data(), at.data() + 6, sum.data(), 6);
      }
      last_[key] = now_;
    }
    for (const auto& [key, last] : last_) {
      if (life_.evict_after == 0 || now_ - last < life_.evict_after) continue;
      rows_.erase(key);
      counts_.erase(key);
    }
  }
  std::vector<float>& record(uint64_t key) {
    std::vector<float>& row = rows_[key];
    if (!row.empty()) return row;
    row.resize(options_.shape.record_lanes());
    options_.shape.make_record(key, row.data());
    return row;
  }
  /// Of all keys that ever were touched.
  Rows rows() {
    Rows all;
    for (const auto& [key, last] : last_)
      all[key].assign(record(key).begin(), record(key).begin() + 6);
    return all;
  }

 private:
  Options options_;
  table::Lifecycle life_;
  uint32_t now_ = 0;
  Rows rows_;
  std::map<uint64_t, uint32_t> counts_, last_;
};

Rows expected_rows(const Options& options, uint32_t rounds) {
  Reference reference(options);
  for (uint32_t round = 0; round < rounds; ++round) reference.step(round);
  return reference.rows();
}

constexpr size_t kAllHot = 400;

/// So many of those that everybody likes, or all there are.
std::vector<uint64_t> hot_set(size_t count) {
  if (count < kAllHot) return hot_keys(count);
  std::set<uint64_t> keys;
  for (uint32_t rank = 0; rank < 3; ++rank) {
    for (uint32_t round = 0; round < kRounds; ++round) {
      for (const uint64_t key : batch(rank, round)) keys.insert(key);
    }
  }
  return {keys.begin(), keys.end()};
}

/// Rounds `from` to `to`; hot sets change on the way.
void train(Worker& worker, uint32_t rank, const Options& options, uint32_t from, uint32_t to,
           size_t hot, Rows* final) {
  const auto good = [](const Result<void>& done) {
    EXPECT_TRUE(done.has_value()) << done.error().what;
    return done.has_value();
  };
  ASSERT_TRUE(good(worker.set_hot(hot_set(hot))));
  std::vector<uint64_t> keys = batch(rank, from);
  ASSERT_TRUE(good(worker.pull(keys)));
  for (uint32_t round = from; round < to; ++round) {
    const std::vector<float> gradients = gradients_of(worker, rank, round, keys);
    keys = batch(rank, round + 1);
    ASSERT_TRUE(good(worker.push_pull(gradients.data(), keys)));
    if (!options.checkpoint_directory.empty()) {
      ASSERT_TRUE(good(worker.save(round % 4 == 0, std::to_string(round + 1))));
    }
    if (hot != 0 && round % 5 == 2) {
      ASSERT_TRUE(good(worker.set_hot(hot_set(hot + round))));
      ASSERT_TRUE(good(worker.pull(keys)));
    }
  }
  if (final == nullptr) return;
  std::vector<uint64_t> all;
  for (const auto& [key, row] : expected_rows(options, to)) all.push_back(key);
  std::vector<float> rows(all.size() * 6);
  ASSERT_TRUE(good(worker.peek(all, rows.data())));
  if (rank != 0) return;
  for (size_t i = 0; i < all.size(); ++i) {
    (*final)[all[i]].assign(rows.data() + 6 * i, rows.data() + 6 * i + 6);
  }
}

Rows run(const Options& options, uint32_t from, uint32_t to, size_t hot) {
  Rows final;
  const auto errors = run_job(options, [&](Worker& worker, uint32_t rank) {
    train(worker, rank, options, from, to, hot, &final);
  });
  for (const std::string& error : errors) EXPECT_EQ(error, "");
  return final;
}

class Lives : public ::testing::TestWithParam<table::Lifecycle> {};

TEST_P(Lives, AllColdMixedAndAllHotGiveTheBitsOfTheRule) {
  for (const auto kind : {table::OptimizerKind::kAdam, table::OptimizerKind::kRowwiseAdagrad}) {
    Options options = small(3, 2, kind);
    options.shape.life = GetParam();
    const Rows expected = expected_rows(options, kRounds);
    for (const size_t hot : {size_t{0}, size_t{20}, kAllHot}) {
      SCOPED_TRACE(hot);
      expect_equal_bits(run(options, 0, kRounds, hot), expected);
    }
  }
}

TEST_P(Lives, ACheckpointGoesOnWithTheSameBitsOnOtherServersAndWithOtherHotKeys) {
  namespace fs = std::filesystem;
  Options options = small(3, 2, table::OptimizerKind::kAdagrad);
  options.shape.life = GetParam();
  options.checkpoint_directory = testing::TempDir() + "lives_" + std::to_string(::getpid()) + "_" +
                                 std::to_string(GetParam().admit_after) + "_" +
                                 std::to_string(GetParam().evict_after);
  fs::remove_all(options.checkpoint_directory);
  fs::create_directories(options.checkpoint_directory);
  (void)run(options, 0, 6, 15);  // The last one is an increment.
  options.restore = read_manifest(options.checkpoint_directory).value();
  ASSERT_EQ(options.restore->parts.size(), 2u);
  options.servers = 3, options.segments = 5;
  (void)run(options, 6, 11, 0);
  options.restore = read_manifest(options.checkpoint_directory).value();
  options.servers = 1, options.segments = 2;
  expect_equal_bits(run(options, 11, kRounds, 33), expected_rows(options, kRounds));
  fs::remove_all(options.checkpoint_directory);
}

INSTANTIATE_TEST_SUITE_P(All, Lives,
                         ::testing::Values(table::Lifecycle{.admit_after = 2},
                                           table::Lifecycle{.evict_after = 2},
                                           table::Lifecycle{.admit_after = 1, .evict_after = 3}),
                         [](const auto& one) {
                           return "Admit" + std::to_string(one.param.admit_after) + "Evict" +
                                  std::to_string(one.param.evict_after);
                         });

TEST(Lifecycle, WithBatchesAheadTheBitsAreThoseOfServersAlone) {
  Options options = small(3, 2, table::OptimizerKind::kMomentum);
  options.shape.life = {.admit_after = 1, .evict_after = 3};
  options.staleness = 2;
  std::vector<Rows> finals;
  for (const size_t hot : {size_t{0}, size_t{25}, kAllHot}) {
    Rows& final = finals.emplace_back();
    const auto errors = run_job(options, [&](Worker& worker, uint32_t rank) {
      ASSERT_TRUE(worker.set_hot(hot_set(hot)));
      ASSERT_TRUE(worker.pull(batch(rank, 0)));
      for (uint32_t i = 1; i <= 2; ++i) ASSERT_TRUE(worker.announce(batch(rank, i)));
      for (uint32_t round = 0; round < kRounds; ++round) {
        const auto gradients = gradients_of(worker, rank, round, batch(rank, round));
        ASSERT_TRUE(worker.push_pull(gradients.data(), batch(rank, round + 3)));
      }
      std::vector<uint64_t> all = hot_keys(40);
      for (uint64_t key = 1000; key < 3000; ++key) all.push_back(key);
      std::vector<float> rows(all.size() * 6);
      ASSERT_TRUE(worker.peek(all, rows.data()));
      for (size_t i = 0; rank == 0 && i < all.size(); ++i) {
        final[all[i]].assign(rows.data() + 6 * i, rows.data() + 6 * i + 6);
      }
    });
    for (const std::string& error : errors) EXPECT_EQ(error, "");
  }
  expect_equal_bits(finals[1], finals[0]);
  expect_equal_bits(finals[2], finals[0]);
}

/// Rows that stay become rows that go, all of them updated just now; and the other way those that
/// are no rows yet are left behind.
TEST(Lifecycle, ACheckpointIsTakenUpByAJobWithAnotherRule) {
  namespace fs = std::filesystem;
  Options options = small(2, 1, table::OptimizerKind::kAdagrad);
  options.checkpoint_directory = testing::TempDir() + "rules_" + std::to_string(::getpid());
  fs::remove_all(options.checkpoint_directory);
  fs::create_directories(options.checkpoint_directory);
  const Rows before = [&] {
    Options undisturbed = options;
    undisturbed.checkpoint_directory.clear();
    return run(undisturbed, 0, 6, 0);
  }();
  (void)run(options, 0, 6, 10);
  std::vector<uint64_t> keys;
  for (const auto& [key, row] : before) keys.push_back(key);
  const auto read_and_save = [&](table::Lifecycle life, uint32_t idle_steps) {
    options.shape.life = life;
    options.restore = read_manifest(options.checkpoint_directory).value();
    Rows rows;
    const auto errors = run_job(options, [&](Worker& worker, uint32_t rank) {
      std::vector<float> all(keys.size() * 6);
      ASSERT_TRUE(worker.peek(keys, all.data()));
      for (size_t i = 0; rank == 0 && i < keys.size(); ++i) {
        rows[keys[i]].assign(all.data() + 6 * i, all.data() + 6 * i + 6);
      }
      ASSERT_TRUE(worker.pull({}));
      for (uint32_t step = 0; step < idle_steps; ++step) ASSERT_TRUE(worker.push_pull(nullptr, {}));
      ASSERT_TRUE(worker.save(false, "state"));
    });
    for (const std::string& error : errors) EXPECT_EQ(error, "");
    return rows;
  };
  expect_equal_bits(read_and_save({.admit_after = 2, .evict_after = 5}, 3), before);
  EXPECT_EQ(read_manifest(options.checkpoint_directory).value()->parts.size(), 1u)
      << "parts before it have other records";
  expect_equal_bits(read_and_save({.admit_after = 1, .evict_after = 5}, 2), before);
  // Five steps without an update have passed.
  const Rows after = read_and_save({}, 0);
  for (const auto& [key, row] : after) {
    std::vector<float> fresh(options.shape.record_lanes());
    options.shape.make_record(key, fresh.data());
    ASSERT_EQ(std::memcmp(row.data(), fresh.data(), 6 * sizeof(float)), 0) << key;
  }
  fs::remove_all(options.checkpoint_directory);
}

TEST(Lifecycle, AFullJobKeepsToItsRowsWhereTheyMayGoAndEndsWithOneLineWhereNot) {
  Options options = small(2, 1, table::OptimizerKind::kSgd);
  options.segments = 2;
  options.shape.rows_max = 80;
  options.shape.life = {.evict_after = 1000};
  std::atomic<size_t> held{0};
  JobSetup setup;
  Server* server = nullptr;
  setup.on_server = [&](Server& at) { server = &at; };
  const auto errors = run_job(
      options,
      [&](Worker& worker, uint32_t rank) {
        train(worker, rank, options, 0, kRounds, 0, nullptr);
        if (rank == 0) held = server->rows();
      },
      setup);
  EXPECT_EQ(errors[2], "");
  EXPECT_LE(held, 160u);
  EXPECT_GT(held, 140u);
  options.shape.life = {.admit_after = 1};
  options.shape.rows_max = 8;
  const auto full = run_job(options, [&](Worker& worker, uint32_t rank) {
    std::vector<uint64_t> keys = batch(rank, 1);
    Result<void> done = worker.pull(keys);
    for (uint32_t round = 0; round < 5 && done; ++round) {
      const std::vector<float> ones(6 * keys.size(), 1.0f);
      done = worker.push_pull(ones.data(), keys);
    }
    ASSERT_FALSE(done.has_value());
    EXPECT_THAT(done.error().what, HasSubstr("the table is full: 8 rows in this segment"));
  });
  EXPECT_THAT(full[2], HasSubstr("the table is full"));
}

}  // namespace
}  // namespace sumcast::sparse
