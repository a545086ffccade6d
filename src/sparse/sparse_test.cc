// Workers and servers through a real job: ranks are threads on loopback.
#include <cmath>

#include "sparse/test_job.h"

namespace sumcast::sparse {
namespace {

using ::testing::HasSubstr;

constexpr uint32_t kRounds = 8;

/// Trains and returns the final rows of all keys as worker 0 sees them.
Rows train(const Options& options, std::span<const uint64_t> hot, uint32_t flush_every,
           const Faults& faults = {}) {
  Rows final;
  const auto errors =
      run_job(options,
              [&](Worker& worker, uint32_t rank) {
                ASSERT_TRUE(worker.set_hot(hot));
                std::vector<uint64_t> keys = batch(rank, 0);
                ASSERT_TRUE(worker.pull(keys));
                for (uint32_t round = 0; round < kRounds; ++round) {
                  const std::vector<float> gradients = gradients_of(worker, rank, round, keys);
                  const std::vector<uint64_t> next = batch(rank, round + 1);
                  auto done = worker.push_pull(gradients.data(), next);
                  ASSERT_TRUE(done.has_value()) << done.error().what;
                  keys = next;
                  if (flush_every != 0 && round % flush_every == 0) {
                    ASSERT_TRUE(worker.flush());
                  }
                }
                std::set<uint64_t> all;
                for (uint32_t r = 0; r < options.workers; ++r) {
                  for (uint32_t round = 0; round < kRounds; ++round) {
                    for (const uint64_t key : batch(r, round)) all.insert(key);
                  }
                }
                // From servers, after the hot rows have gone there.
                ASSERT_TRUE(worker.set_hot({}));
                keys.assign(all.begin(), all.end());
                ASSERT_TRUE(worker.pull(keys));
                if (rank != 0) return;
                for (size_t i = 0; i < keys.size(); ++i) {
                  final[keys[i]].assign(worker.row(i), worker.row(i) + 6);
                }
              },
              {.faults = faults, .delays = {}, .aggregator = {}, .seats = false, .on_server = {}});
  for (const std::string& error : errors) EXPECT_EQ(error, "");
  return final;
}

class Bits : public ::testing::TestWithParam<table::OptimizerKind> {};

TEST_P(Bits, AllColdMixedAndAllHotTrainToTheSameBitsAsOneMachine) {
  const Options options = small(3, 2, GetParam());
  const Rows expected = reference(options, kRounds);
  expect_equal_bits(train(options, {}, 0), expected);
  expect_equal_bits(train(options, hot_keys(40), 2), expected);
  std::vector<uint64_t> all;
  for (const auto& [key, row] : expected) all.push_back(key);
  expect_equal_bits(train(options, all, 3), expected);
}

INSTANTIATE_TEST_SUITE_P(
    Optimizers, Bits,
    ::testing::Values(table::OptimizerKind::kSgd, table::OptimizerKind::kMomentum,
                      table::OptimizerKind::kAdagrad, table::OptimizerKind::kRowwiseAdagrad,
                      table::OptimizerKind::kAdam, table::OptimizerKind::kFtrl));

TEST(Sparse, LossDuplicationAndReorderingChangeNoBit) {
  const Options options = small(3, 1, table::OptimizerKind::kAdagrad);
  Faults faults;
  faults.loss = 0.02, faults.duplicate = 0.02, faults.reorder = 0.02;
  expect_equal_bits(train(options, hot_keys(40), 2, faults), reference(options, kRounds));
}

TEST(Sparse, ALossyWireGivesTheSameBitsHotAndCold) {
  for (const WireFormat wire : {WireFormat::kBF16, WireFormat::kFP16, WireFormat::kInt8}) {
    Options options = small(3, 2, table::OptimizerKind::kMomentum);
    options.wire = wire;
    expect_equal_bits(train(options, hot_keys(40), 1), train(options, {}, 0));
  }
}

TEST(Sparse, PeekingReadsHotAndColdRowsAndMakesNone) {
  const Options options = small(2, 1, table::OptimizerKind::kSgd);
  run_job(options, [&](Worker& worker, uint32_t rank) {
    ASSERT_TRUE(worker.set_hot(hot_keys(2)));
    const std::vector<uint64_t> keys = {0, 0x123456789ABCDEFu, 77};
    ASSERT_TRUE(worker.pull(keys));
    const std::vector<float> gradients(18, rank == 0 ? 1.0f : 2.0f);
    ASSERT_TRUE(worker.push_pull(gradients.data(), {}));
    const std::vector<uint64_t> asked = {99, 77, 0};  // 99: nobody has it.
    std::vector<float> rows(18);
    ASSERT_TRUE(worker.peek(asked, rows.data()));
    std::vector<float> fresh(6);
    for (size_t i = 0; i < 3; ++i) {
      options.shape.make_record(asked[i], fresh.data());
      const float moved = i == 0 ? 0.0f : options.shape.optimizer.rate * 3.0f;
      for (size_t lane = 0; lane < 6; ++lane) {
        EXPECT_FLOAT_EQ(rows[i * 6 + lane], fresh[lane] - moved) << asked[i];
      }
    }
    EXPECT_EQ(worker.keys(), 0u);
  });
}

TEST(Sparse, KeysMoveBetweenServersAndWorkersWithTheirState) {
  const Options options = small(2, 2, table::OptimizerKind::kAdam);
  Rows final;
  run_job(options, [&](Worker& worker, uint32_t rank) {
    std::vector<uint64_t> keys = batch(rank, 0);
    ASSERT_TRUE(worker.pull(keys));
    for (uint32_t round = 0; round < kRounds; ++round) {
      if (round % 2 == 1) {  // Another hot set every other round.
        ASSERT_TRUE(worker.set_hot(hot_keys(5 * round)));
        ASSERT_TRUE(worker.pull(keys));
      }
      const std::vector<float> gradients = gradients_of(worker, rank, round, keys);
      const std::vector<uint64_t> next = batch(rank, round + 1);
      ASSERT_TRUE(worker.push_pull(gradients.data(), next));
      keys = next;
    }
    std::vector<uint64_t> all;
    for (const auto& [key, row] : reference(options, kRounds)) all.push_back(key);
    ASSERT_TRUE(worker.pull(all));
    if (rank != 0) return;
    for (size_t i = 0; i < all.size(); ++i) {
      final[all[i]].assign(worker.row(i), worker.row(i) + 6);
    }
  });
  expect_equal_bits(final, reference(options, kRounds));
}

TEST(Sparse, DifferentOptionsOrHotKeysAreNamedOnAllMembers) {
  const Options options = small(2, 1, table::OptimizerKind::kSgd);
  run_job(options, [&](Worker& worker, uint32_t rank) {
    const std::vector<uint64_t> mine = {1, 2, rank + 10};
    auto set = worker.set_hot(mine);
    ASSERT_FALSE(set.has_value());
    EXPECT_THAT(set.error().what, HasSubstr("different hot keys"));
    const std::vector<uint64_t> twice = {5, 5};
    set = worker.set_hot(twice);
    ASSERT_FALSE(set.has_value());
    EXPECT_THAT(set.error().what, HasSubstr("5 stands there twice"));
    ASSERT_TRUE(worker.pull({}));  // Nothing is broken.
  });
}

TEST(Sparse, AKeyPulledTwiceEndsTheJobWithALineThatNamesIt) {
  const Options options = small(2, 1, table::OptimizerKind::kSgd);
  const auto errors = run_job(options, [&](Worker& worker, uint32_t rank) {
    const std::vector<uint64_t> twice = {7, 8, 7}, once = {7};
    auto pulled = worker.pull(rank == 1 ? twice : once);
    ASSERT_FALSE(pulled.has_value());
  });
  EXPECT_THAT(errors[2], HasSubstr("worker 1 pulled key 7 twice"));
}

TEST(Sparse, WhatCannotBeIsRefusedAndNothingIsDone) {
  const Options options = small(2, 1, table::OptimizerKind::kSgd);
  const auto errors = run_job(options, [&](Worker& worker, uint32_t) {
    const std::vector<uint64_t> hot = {7, 9}, twice = {7, 8, 7}, fine = {7, 8};
    ASSERT_TRUE(worker.set_hot(hot));
    auto refused = worker.pull(twice);
    ASSERT_FALSE(refused.has_value());
    EXPECT_THAT(refused.error().what, HasSubstr("key 7 comes twice"));
    ASSERT_TRUE(worker.pull(fine));
    refused = worker.push_pull(nullptr, {});
    ASSERT_FALSE(refused.has_value());
    EXPECT_THAT(refused.error().what, HasSubstr("no gradients for 2 current keys"));
    const std::vector<float> gradients(12, 1.0f);
    ASSERT_TRUE(worker.push_pull(gradients.data(), {})) << "all is as it was";
  });
  EXPECT_EQ(errors[2], "");
}

TEST(Sparse, AWorkerThatLeavesBeforeTheOthersIsNamed) {
  const Options options = small(2, 1, table::OptimizerKind::kSgd);
  const auto errors = run_job(options, [&](Worker& worker, uint32_t rank) {
    const std::vector<uint64_t> keys = {1, 2, 3};
    ASSERT_TRUE(worker.pull(keys));
    if (rank == 1) return;
    auto pulled = worker.pull(keys);
    ASSERT_FALSE(pulled.has_value());
    EXPECT_THAT(pulled.error().what, HasSubstr("worker 1 has left"));
    pulled = worker.pull(keys);
    EXPECT_THAT(pulled.error().what, HasSubstr("worker 1 has left")) << "the job is over";
  });
  EXPECT_THAT(errors[2], HasSubstr("worker 1 has left, and others go on"));
}

TEST(Sparse, MoreRowsThanAServerAllotsAreRefusedByIt) {
  Options options = small(2, 1, table::OptimizerKind::kSgd);
  options.body_rows_max = 10;
  const auto errors = run_job(options, [&](Worker& worker, uint32_t) {
    std::vector<uint64_t> keys(400);
    for (uint64_t i = 0; i < keys.size(); ++i) keys[i] = i;
    ASSERT_FALSE(worker.pull(keys).has_value());
  });
  EXPECT_THAT(errors[2], HasSubstr("10 are possible: take smaller batches"));
}

/// Rates of a schedule belong to steps, whoever holds the rows and however late they are asked for.
TEST(Sparse, ARateThatChangesBetweenStepsIsThatOfItsStepHotAndCold) {
  constexpr uint32_t kSteps = 8;
  const auto rate_of = [](uint32_t round) { return 0.1f / static_cast<float>(1 + round / 2); };
  for (const auto kind : {table::OptimizerKind::kAdam, table::OptimizerKind::kFtrl}) {
    const Options options = small(3, 2, kind);
    table::RowTable expected(options.shape);
    for (uint32_t round = 0; round < kSteps; ++round) {
      std::map<uint64_t, std::vector<float>> sums;
      for (uint32_t rank = 0; rank < 3; ++rank) {
        for (const uint64_t key : batch(rank, round)) {
          float gradient[6];
          gradient_of(rank, round, key, expected.record(expected.find_or_make(key)), gradient);
          auto [at, fresh] = sums.try_emplace(key, gradient, gradient + 6);
          for (int i = 0; i < 6 && !fresh; ++i) at->second[i] += gradient[i];
        }
      }
      expected.set_rate(rate_of(round));
      for (const auto& [key, sum] : sums) expected.step(expected.find(key), sum.data());
    }
    for (const size_t hot : {0, 25}) {
      const auto errors = run_job(options, [&](Worker& worker, uint32_t rank) {
        ASSERT_TRUE(worker.set_hot(hot_keys(hot)));
        std::vector<uint64_t> keys = batch(rank, 0);
        ASSERT_TRUE(worker.pull(keys));
        for (uint32_t round = 0; round < kSteps; ++round) {
          const std::vector<float> gradients = gradients_of(worker, rank, round, keys);
          keys = batch(rank, round + 1);
          ASSERT_TRUE(worker.set_rate(rate_of(round)));
          for (const float wrong : {-1.0f, std::nanf(""), INFINITY}) {
            ASSERT_FALSE(worker.set_rate(wrong).has_value()) << "and nothing has changed";
          }
          ASSERT_TRUE(worker.push_pull(gradients.data(), keys));
        }
        std::vector<uint64_t> all;
        for (uint32_t row = 0; row < expected.size(); ++row) all.push_back(expected.key(row));
        std::vector<float> rows(6 * all.size());
        ASSERT_TRUE(worker.peek(all, rows.data()));
        for (uint32_t row = 0; row < expected.size(); ++row) {
          ASSERT_EQ(std::memcmp(&rows[6 * row], expected.record(row), 6 * sizeof(float)), 0);
        }
      });
      for (const std::string& error : errors) EXPECT_EQ(error, "");
    }
  }
}

TEST(Sparse, RatesThatDifferAreNamedOnAllMembers) {
  const Options options = small(2, 1, table::OptimizerKind::kSgd);
  const auto errors = run_job(options, [&](Worker& worker, uint32_t rank) {
    const std::vector<uint64_t> keys = {7, 8};
    const std::vector<float> ones(12, 1.0f);
    ASSERT_TRUE(worker.pull(keys));
    ASSERT_TRUE(worker.set_rate(rank == 0 ? 0.5f : 0.25f));
    const auto done = worker.push_pull(ones.data(), keys);
    ASSERT_FALSE(done.has_value());
    EXPECT_THAT(done.error().what,
                testing::HasSubstr("step 1 has rate 0.25 at worker 1 and 0.5 at"));
  });
  EXPECT_THAT(errors[2], testing::HasSubstr("set the same on all"));
}

}  // namespace
}  // namespace sumcast::sparse
