// Workers and servers through a real job: ranks are threads on loopback.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <future>
#include <map>
#include <set>
#include <thread>

#include "base/prng.h"
#include "sparse/server.h"
#include "sparse/worker.h"

namespace sumcast::sparse {
namespace {

using ::testing::HasSubstr;

using Rows = std::map<uint64_t, std::vector<float>>;

Options small(uint32_t workers, uint32_t servers, table::OptimizerKind kind) {
  Options options;
  options.workers = workers;
  options.servers = servers;
  options.segments = 4;
  options.shape.width = 6;
  options.shape.optimizer.kind = kind;
  options.shape.optimizer.rate = 0.05f;
  options.shape.init_scale = 0.1f;
  return options;
}

/// Runs workers and servers as threads; `body(worker)` on each worker.
template <typename Body>
std::vector<std::string> run_job(const Options& options, Body body, const Faults& faults = {}) {
  std::promise<std::string> meeting;
  const std::shared_future<std::string> address = meeting.get_future().share();
  std::vector<std::thread> threads;
  std::vector<std::string> errors(options.workers + options.servers);
  for (uint32_t rank = 0; rank < options.workers + options.servers; ++rank) {
    threads.emplace_back([&, rank] {
      sumcast::Options job;
      job.rank = rank;
      job.world = options.workers + options.servers;
      job.key.emplace();
      job.key->fill(std::byte{0x5A});
      job.timeout = std::chrono::seconds(30);
      job.join_timeout = std::chrono::seconds(10);
      job.one_rank_per_host = true;
      job.faults = faults;
      job.faults.seed += rank;
      if (rank == 0) {
        job.coordinator = "127.0.0.1:0";
        job.on_listening = [&](const std::string& where) { meeting.set_value(where); };
      } else {
        job.coordinator = address.get();
      }
      auto context = Context::create(job);
      ASSERT_TRUE(context.has_value()) << context.error().what;
      if (rank < options.workers) {
        auto worker = Worker::create(**context, options);
        ASSERT_TRUE(worker.has_value()) << worker.error().what;
        body(**worker, rank);
      } else {
        auto server = Server::create(**context, options);
        ASSERT_TRUE(server.has_value()) << server.error().what;
        if (auto served = (*server)->run(); !served) errors[rank] = served.error().what;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  return errors;
}

/// The keys of a worker's batch: a few that everybody likes, and some of its own.
std::vector<uint64_t> batch(uint32_t rank, uint32_t round) {
  Prng random(rank * 1000 + round + 1);
  std::set<uint64_t> keys;
  for (int i = 0; i < 30; ++i) keys.insert(random.below(40) * 0x123456789ABCDEFu);
  for (int i = 0; i < 30; ++i) keys.insert(1000 + random.below(2000));
  if (round % 3 == 0) keys.insert({0, UINT64_MAX});
  if ((rank + round) % 5 == 0) keys.clear();  // A worker without keys closes rounds all the same.
  return {keys.begin(), keys.end()};
}

/// A gradient that depends on rank, round, key and the row's value, so that a stale row shows.
void gradient_of(uint32_t rank, uint32_t round, uint64_t key, const float* row, float* out) {
  Prng random(table::mix_key(key) ^ (rank * 7919 + round));
  for (int i = 0; i < 6; ++i) {
    out[i] = static_cast<float>(random.unit() - 0.5) + 0.3f * row[i];
  }
}

constexpr uint32_t kRounds = 8;

/// Trains and returns the final rows of all keys as worker 0 sees them.
Rows train(const Options& options, std::span<const uint64_t> hot, uint32_t flush_every,
           const Faults& faults = {}) {
  Rows final;
  const auto errors = run_job(
      options,
      [&](Worker& worker, uint32_t rank) {
        ASSERT_TRUE(worker.set_hot(hot));
        std::vector<uint64_t> keys = batch(rank, 0);
        ASSERT_TRUE(worker.pull(keys));
        for (uint32_t round = 0; round < kRounds; ++round) {
          std::vector<float> gradients(keys.size() * 6);
          for (size_t i = 0; i < keys.size(); ++i) {
            gradient_of(rank, round, keys[i], worker.row(i), gradients.data() + 6 * i);
          }
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
      faults);
  for (const std::string& error : errors) EXPECT_EQ(error, "");
  return final;
}

void expect_equal_bits(const Rows& a, const Rows& b) {
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [key, row] : a) {
    ASSERT_TRUE(b.contains(key));
    ASSERT_EQ(std::memcmp(row.data(), b.at(key).data(), row.size() * sizeof(float)), 0) << key;
  }
}

/// What one machine would compute: rounds one after the other, gradients folded in rank order.
Rows reference(const Options& options) {
  table::RowTable rows(options.shape);
  for (uint32_t round = 0; round < kRounds; ++round) {
    std::map<uint64_t, std::vector<float>> sums;
    for (uint32_t rank = 0; rank < options.workers; ++rank) {
      for (const uint64_t key : batch(rank, round)) {
        float gradient[6];
        gradient_of(rank, round, key, rows.record(rows.find_or_make(key)), gradient);
        auto [at, fresh] = sums.try_emplace(key, gradient, gradient + 6);
        for (int i = 0; i < 6 && !fresh; ++i) at->second[i] += gradient[i];
      }
    }
    for (const auto& [key, sum] : sums) rows.step(rows.find(key), sum.data());
  }
  Rows final;
  for (uint32_t row = 0; row < rows.size(); ++row) {
    final[rows.key(row)].assign(rows.record(row), rows.record(row) + 6);
  }
  return final;
}

std::vector<uint64_t> hot_keys(size_t count) {
  std::vector<uint64_t> keys;
  for (uint64_t i = 0; i < count; ++i) keys.push_back(i * 0x123456789ABCDEFu);
  return keys;
}

class Bits : public ::testing::TestWithParam<table::OptimizerKind> {};

TEST_P(Bits, AllColdMixedAndAllHotTrainToTheSameBitsAsOneMachine) {
  const Options options = small(3, 2, GetParam());
  const Rows expected = reference(options);
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
  expect_equal_bits(train(options, hot_keys(40), 2, faults), reference(options));
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
      std::vector<float> gradients(keys.size() * 6);
      for (size_t i = 0; i < keys.size(); ++i) {
        gradient_of(rank, round, keys[i], worker.row(i), gradients.data() + 6 * i);
      }
      const std::vector<uint64_t> next = batch(rank, round + 1);
      ASSERT_TRUE(worker.push_pull(gradients.data(), next));
      keys = next;
    }
    std::vector<uint64_t> all;
    for (const auto& [key, row] : reference(options)) all.push_back(key);
    ASSERT_TRUE(worker.pull(all));
    if (rank != 0) return;
    for (size_t i = 0; i < all.size(); ++i) {
      final[all[i]].assign(worker.row(i), worker.row(i) + 6);
    }
  });
  expect_equal_bits(final, reference(options));
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

}  // namespace
}  // namespace sumcast::sparse
