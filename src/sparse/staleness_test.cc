// Batches announced ahead (P20), and jobs in which nobody waits (P21).
#include <atomic>
#include <condition_variable>
#include <filesystem>

#include "sparse/test_job.h"

namespace sumcast::sparse {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

constexpr uint32_t kRounds = 12;

Options stale(uint32_t staleness, table::OptimizerKind kind = table::OptimizerKind::kAdagrad) {
  Options options = small(3, 2, kind);
  options.staleness = staleness;
  return options;
}

/// What one machine would compute that gives each step's gradients from rows as they were
/// `staleness` steps before.
Rows delayed_reference(const Options& options, uint32_t rounds = kRounds) {
  table::RowTable rows(options.shape);
  const auto read = [&] {
    Rows all;
    for (uint32_t row = 0; row < rows.size(); ++row) {
      all[rows.key(row)].assign(rows.record(row), rows.record(row) + 6);
    }
    return all;
  };
  std::vector<Rows> versions;  // By steps contained.
  for (uint32_t round = 0; round < rounds; ++round) {
    versions.push_back(read());
    const Rows& seen = versions[round < options.staleness ? 0 : round - options.staleness];
    Rows sums;
    for (uint32_t rank = 0; rank < options.workers; ++rank) {
      for (const uint64_t key : batch(rank, round)) {
        std::vector<float> fresh(options.shape.record_lanes());
        options.shape.make_record(key, fresh.data());
        const auto held = seen.find(key);
        float gradient[6];
        gradient_of(rank, round, key, held == seen.end() ? fresh.data() : held->second.data(),
                    gradient);
        auto [at, is_new] = sums.try_emplace(key, gradient, gradient + 6);
        for (size_t i = 0; i < 6 && !is_new; ++i) at->second[i] += gradient[i];
      }
    }
    for (const auto& [key, sum] : sums) rows.step(rows.find_or_make(key), sum.data());
  }
  return read();
}

/// Rounds with `staleness` batches ahead. `on_round` is called before each.
Rows train(const Options& options, std::span<const uint64_t> hot,
           const std::function<void(Worker&, uint32_t rank, uint32_t round)>& on_round = {},
           const JobSetup& setup = {}) {
  Rows final;
  const auto errors = run_job(
      options,
      [&](Worker& worker, uint32_t rank) {
        ASSERT_TRUE(worker.set_hot(hot));
        const uint32_t ahead = options.staleness;
        ASSERT_TRUE(worker.pull(batch(rank, 0)));
        for (uint32_t i = 1; i <= ahead; ++i) ASSERT_TRUE(worker.announce(batch(rank, i)));
        for (uint32_t round = 0; round < kRounds; ++round) {
          if (on_round) on_round(worker, rank, round);
          ASSERT_EQ(worker.clock().now(), round + 1);
          ASSERT_EQ(worker.clock().seen(), round < ahead ? 0 : round - ahead);
          const auto gradients = gradients_of(worker, rank, round, batch(rank, round));
          auto done = worker.push_pull(gradients.data(), batch(rank, round + 1 + ahead));
          ASSERT_TRUE(done.has_value()) << done.error().what;
        }
        std::set<uint64_t> all;
        for (uint32_t r = 0; r < options.workers; ++r) {
          for (uint32_t round = 0; round < kRounds; ++round) {
            for (const uint64_t key : batch(r, round)) all.insert(key);
          }
        }
        const std::vector<uint64_t> keys(all.begin(), all.end());
        std::vector<float> rows(keys.size() * 6);
        ASSERT_TRUE(worker.peek(keys, rows.data()));
        if (rank != 0) return;
        for (size_t i = 0; i < keys.size(); ++i) {
          final[keys[i]].assign(rows.data() + 6 * i, rows.data() + 6 * i + 6);
        }
      },
      setup);
  for (const std::string& error : errors) EXPECT_EQ(error, "");
  return final;
}

void dawdle(Worker&, uint32_t rank, uint32_t round) {
  if (rank == round % 3) std::this_thread::sleep_for(8ms);
}

TEST(Staleness, AllColdMixedAndAllHotGiveTheBitsOfOneMachineThatReadsAsLate) {
  for (const uint32_t staleness : {0u, 1u, 2u, 5u}) {
    const Options options = stale(staleness);
    const Rows expected = delayed_reference(options);
    if (staleness == 0) expect_equal_bits(expected, reference(options, kRounds));
    expect_equal_bits(train(options, {}, dawdle), expected);
    expect_equal_bits(train(options, hot_keys(40), dawdle), expected);
    std::vector<uint64_t> all;
    for (const auto& [key, row] : expected) all.push_back(key);
    expect_equal_bits(train(options, all), expected);
  }
}

TEST(Staleness, LossDuplicationAndReorderingChangeNoBit) {
  const Options options = stale(2, table::OptimizerKind::kAdam);
  JobSetup setup;
  setup.faults.loss = 0.02, setup.faults.duplicate = 0.02, setup.faults.reorder = 0.02;
  expect_equal_bits(train(options, hot_keys(40), {}, setup), delayed_reference(options));
}

TEST(Staleness, CallsThatWaitForAllStepsChangeNotWhatWasAskedFor) {
  const Options options = stale(2, table::OptimizerKind::kMomentum);
  const auto interrupt = [](Worker& worker, uint32_t rank, uint32_t round) {
    std::array<double, 1> number = {rank + 0.5};
    ASSERT_TRUE(worker.all_reduce(std::span<double>(number)));
    ASSERT_EQ(number[0], 4.5);
    if (round % 3 == 1) {
      ASSERT_TRUE(worker.flush());
    }
  };
  expect_equal_bits(train(options, hot_keys(30), interrupt), delayed_reference(options));
}

TEST(Staleness, ACheckpointHoldsAllStepsAndTrainingGoesOnAsItWould) {
  Options options = stale(2);
  options.checkpoint_directory = testing::TempDir() + "stale_" + std::to_string(::getpid());
  std::filesystem::remove_all(options.checkpoint_directory);
  std::filesystem::create_directories(options.checkpoint_directory);
  const auto save = [&](Worker& worker, uint32_t, uint32_t round) {
    if (round == 5 || round == 9) {
      ASSERT_TRUE(worker.save(round == 5, "state"));
    }
  };
  expect_equal_bits(train(options, hot_keys(30), save), delayed_reference(options));
  options.restore = read_manifest(options.checkpoint_directory).value();
  ASSERT_TRUE(options.restore.has_value());
  EXPECT_EQ(options.restore->number, 2u);
  // Taken up again it has the steps that were given, those under way when it was taken included.
  options.servers = 3;
  const Rows saved = delayed_reference(options, 9);
  const auto errors = run_job(options, [&](Worker& worker, uint32_t) {
    std::vector<uint64_t> keys;
    for (const auto& [key, row] : saved) keys.push_back(key);
    std::vector<float> rows(6 * keys.size());
    ASSERT_TRUE(worker.peek(keys, rows.data()));
    for (size_t i = 0; i < keys.size(); ++i) {
      ASSERT_EQ(std::memcmp(&rows[6 * i], saved.at(keys[i]).data(), 6 * sizeof(float)), 0);
    }
  });
  for (const std::string& error : errors) EXPECT_EQ(error, "");
  std::filesystem::remove_all(options.checkpoint_directory);
}

/// One key, of which every gradient is 1: its value says how many gradients moved it.
class Counting : public ::testing::TestWithParam<bool> {
 protected:
  static constexpr uint64_t kKey = 77;
  static Options options(uint32_t staleness) {
    Options options = small(3, 1, table::OptimizerKind::kSgd);
    options.shape.init_scale = 0;
    options.shape.optimizer.rate = 1;
    options.staleness = staleness;
    return options;
  }
  static double count_of(const Worker& worker) { return -worker.row(0)[0]; }
};

TEST_P(Counting, AReadContainsEverythingUpToTheBoundWhateverThePace) {
  const std::vector<uint64_t> key = {kKey};
  const std::vector<float> one(6, 1.0f);
  for (const uint32_t staleness : {1u, 4u}) {
    run_job(options(staleness), [&](Worker& worker, uint32_t rank) {
      if (GetParam()) {
        ASSERT_TRUE(worker.set_hot(key));
      }
      ASSERT_TRUE(worker.pull(key));
      for (uint32_t i = 0; i < staleness; ++i) ASSERT_TRUE(worker.announce(key));
      Prng random(rank + 1);
      for (uint32_t step = 1; step <= 30; ++step) {
        std::this_thread::sleep_for(
            std::chrono::microseconds(random.below(rank == 0 ? 5000 : 500)));
        const uint32_t contained = step <= staleness ? 0 : step - 1 - staleness;
        ASSERT_EQ(count_of(worker), 3.0 * contained);
        ASSERT_TRUE(worker.push_pull(one.data(), key));
      }
      ASSERT_TRUE(worker.pull(key));
      ASSERT_EQ(count_of(worker), 90.0) << "a pull waits for all";
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Paths, Counting, ::testing::Bool());

/// Threads that tell each other.
class Signal {
 public:
  void give() {
    std::lock_guard lock(mutex_);
    is_given_ = true;
    changed_.notify_all();
  }
  bool wait() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, 20s, [&] { return is_given_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_given_ = false;
};

TEST(Staleness, AWorkerMayBeThatManyStepsAheadOfOneThatGivesNone) {
  for (const uint32_t staleness : {1u, 3u}) {
    Options options = small(2, 1, table::OptimizerKind::kSgd);
    options.staleness = staleness;
    Signal ahead;
    run_job(options, [&](Worker& worker, uint32_t rank) {
      const std::vector<uint64_t> key = {5};
      const std::vector<float> one(6, 1.0f);
      ASSERT_TRUE(worker.set_hot(hot_keys(3)));
      ASSERT_TRUE(worker.pull(key));
      for (uint32_t i = 0; i < staleness; ++i) ASSERT_TRUE(worker.announce(key));
      if (rank == 1) {
        ASSERT_TRUE(ahead.wait());
      }
      for (uint32_t step = 0; step < staleness; ++step) {
        ASSERT_TRUE(worker.push_pull(one.data(), key));
      }
      if (rank == 0) ahead.give();
      ASSERT_TRUE(worker.push_pull(one.data(), key));
    });
  }
}

TEST(Staleness, MoreBatchesThanTheJobAllowsAreRefusedAndNothingIsDone) {
  const Options options = stale(1);
  run_job(options, [&](Worker& worker, uint32_t) {
    const std::vector<uint64_t> keys = {1, 2, 3};
    ASSERT_TRUE(worker.pull(keys));
    ASSERT_TRUE(worker.announce(keys));
    const auto refused = worker.announce(keys);
    ASSERT_FALSE(refused.has_value());
    EXPECT_THAT(refused.error().what, HasSubstr("staleness is 1"));
    const std::vector<float> gradients(18, 1.0f);
    std::vector<float> dense(4, 1.0f);
    const auto late = worker.push_pull(gradients.data(), keys, dense);
    ASSERT_FALSE(late.has_value());
    EXPECT_THAT(late.error().what, HasSubstr("take_dense"));
    ASSERT_TRUE(worker.push_pull(gradients.data(), keys));
    ASSERT_TRUE(worker.pull(keys));
  });
}

TEST(Staleness, DenseSumsComeOncePerStepInOrder) {
  const Options options = stale(2);
  run_job(options, [&](Worker& worker, uint32_t rank) {
    std::vector<float> sums;
    worker.take_dense([&](std::span<const float> sum) { sums.push_back(sum[0]); });
    ASSERT_TRUE(worker.pull({}));
    for (int i = 0; i < 2; ++i) ASSERT_TRUE(worker.announce({}));
    std::vector<float> expected;
    for (uint32_t step = 0; step < 8; ++step) {
      std::vector<float> dense(40, static_cast<float>(step * 10 + rank));
      ASSERT_TRUE(worker.push_pull(nullptr, {}, dense));
      expected.push_back(static_cast<float>(step * 30 + 3));
      ASSERT_EQ(sums.size(), step < 2 ? 0u : step - 1);
      if (step == 5) {
        ASSERT_TRUE(worker.peek({}, nullptr)) << "waits for all";
        ASSERT_EQ(sums, expected);
        ASSERT_TRUE(worker.pull({}));
        break;
      }
    }
  });
}

TEST(Asynchronous, AWorkerNeedsNobodyElse) {
  Options options = small(2, 2, table::OptimizerKind::kSgd);
  options.asynchronous = true;
  options.shape.init_scale = 0;
  options.shape.optimizer.rate = 1;
  for (const uint32_t staleness : {0u, 2u}) {
    options.staleness = staleness;
    Signal done;
    const auto errors = run_job(options, [&](Worker& worker, uint32_t rank) {
      const std::vector<uint64_t> keys = {5, 6, 7, 8};
      const std::vector<float> ones(24, 1.0f);
      if (rank == 1) {
        ASSERT_TRUE(done.wait()) << "worker 0 waits for this one";
      }
      ASSERT_TRUE(worker.pull(keys));
      for (uint32_t i = 0; i < staleness; ++i) ASSERT_TRUE(worker.announce(keys));
      for (uint32_t step = 1; step <= 50; ++step) {
        const float own = step <= staleness ? 0 : static_cast<float>(step - 1 - staleness);
        for (size_t i = 0; i < 4; ++i) ASSERT_EQ(-worker.row(i)[0], own + (rank == 1 ? 50 : 0));
        ASSERT_TRUE(worker.push_pull(ones.data(), keys));
      }
      if (rank == 0) {
        ASSERT_TRUE(worker.catch_up()) << "the last rounds may still be under way";
        done.give();
      }
      std::array<double, 1> both = {1};
      ASSERT_TRUE(worker.all_reduce(std::span<double>(both))) << "here they meet";
      std::vector<float> rows(24);
      ASSERT_TRUE(worker.peek(keys, rows.data()));
      for (size_t i = 0; i < 4; ++i) ASSERT_EQ(-rows[6 * i], 100.0f);
    });
    for (const std::string& error : errors) EXPECT_EQ(error, "");
  }
}

TEST(Asynchronous, EveryGradientCountsOnceAndACheckpointHoldsAll) {
  Options options = small(3, 2, table::OptimizerKind::kSgd);
  options.asynchronous = true;
  options.shape.init_scale = 0;
  options.shape.optimizer.rate = 1;
  options.checkpoint_directory = testing::TempDir() + "async_" + std::to_string(::getpid());
  std::filesystem::remove_all(options.checkpoint_directory);
  std::filesystem::create_directories(options.checkpoint_directory);
  std::map<uint64_t, float> expected;
  for (uint32_t rank = 0; rank < 3; ++rank) {
    for (uint32_t round = 0; round < kRounds; ++round) {
      for (const uint64_t key : batch(rank, round)) expected[key] += 1;
    }
  }
  run_job(options, [&](Worker& worker, uint32_t rank) {
    ASSERT_TRUE(worker.pull(batch(rank, 0)));
    for (uint32_t round = 0; round < kRounds; ++round) {
      const std::vector<float> ones(6 * worker.keys(), 1.0f);
      ASSERT_TRUE(worker.push_pull(ones.data(), batch(rank, round + 1)));
    }
    ASSERT_TRUE(worker.save(true, ""));
  });
  options.restore = read_manifest(options.checkpoint_directory).value();
  run_job(options, [&](Worker& worker, uint32_t) {
    std::vector<uint64_t> keys;
    for (const auto& [key, count] : expected) keys.push_back(key);
    std::vector<float> rows(6 * keys.size());
    ASSERT_TRUE(worker.peek(keys, rows.data()));
    for (size_t i = 0; i < keys.size(); ++i) ASSERT_EQ(-rows[6 * i], expected[keys[i]]);
  });
  std::filesystem::remove_all(options.checkpoint_directory);
}

TEST(Asynchronous, WhatNeedsAllWorkersIsRefused) {
  Options options = small(2, 1, table::OptimizerKind::kSgd);
  options.asynchronous = true;
  run_job(options, [&](Worker& worker, uint32_t) {
    const auto hot = worker.set_hot(hot_keys(3));
    ASSERT_FALSE(hot.has_value());
    EXPECT_THAT(hot.error().what, HasSubstr("no hot keys"));
    ASSERT_TRUE(worker.set_hot({}));
    std::vector<float> dense(3);
    const auto summed = worker.push_pull(nullptr, {}, dense);
    ASSERT_FALSE(summed.has_value());
    EXPECT_THAT(summed.error().what, HasSubstr("nothing dense"));
  });
}

}  // namespace
}  // namespace sumcast::sparse
