// A real sumcastd for tests, that can be killed and come back, and a training with every kind of
// operation in it, whose bits are known.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "sparse/test_job.h"

namespace sumcast::sparse {

inline constexpr uint32_t kRounds = 24;

/// A daemon of the key that test jobs have. Defined in recovery_test.cc.
class Daemon {
 public:
  /// @param listen  where one was that has died, to be that one again.
  explicit Daemon(const std::string& listen = "127.0.0.1:0");
  /// Kills it, and waits for its end.
  ~Daemon();
  const std::string& address() const { return address_; }
  /// From any thread; without a farewell. It is gone when this returns.
  void kill() const;

 private:
  struct Running;
  std::unique_ptr<Running> running_;
  std::string address_;
};

/// Daemons at addresses that stay, and who of rank 0 is to be asked.
struct Road {
  std::optional<Daemon> first{std::in_place}, second{std::in_place};
  const std::string first_address = first->address(), second_address = second->address();
  std::atomic<Seat*> seat{nullptr};

  JobSetup setup(bool has_second) {
    JobSetup setup;
    setup.aggregator = first_address + (has_second ? "," + second_address : "");
    setup.seats = true;
    setup.return_after = std::chrono::milliseconds(10);
    setup.on_seat = [this](Seat& at, uint32_t rank) {
      if (rank == 0) seat.store(&at);
    };
    return setup;
  }
  /// All members have joined a better place again.
  void await_return() const {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (!seat.load()->is_return_ready()) {
      ASSERT_LT(std::chrono::steady_clock::now(), until) << "nobody comes back";
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
};

inline bool good(const Result<void>& done) {
  EXPECT_TRUE(done.has_value()) << done.error().what;
  return done.has_value();
}

/// A sum that all are in: whoever is through it knows that all have come.
inline void meet(Worker& worker, uint32_t workers) {
  std::array<double, 1> number = {1};
  ASSERT_TRUE(good(worker.all_reduce(std::span<double>(number))));
  ASSERT_EQ(number[0], workers);
}

/// What one job saw, over its workers.
struct Outcome {
  Rows final;
  uint64_t failovers = 0, returns = 0, repeated = 0;
};

/// Rounds with every kind of operation between them: flushes, other hot keys, reading, sums.
inline void train(Worker& worker, uint32_t rank, const Options& options, Rows& final,
                  const std::function<void(uint32_t round)>& on_round, uint32_t rounds = kRounds) {
  ASSERT_TRUE(good(worker.set_hot(hot_keys(30))));
  std::vector<uint64_t> keys = batch(rank, 0);
  ASSERT_TRUE(good(worker.pull(keys)));
  for (uint32_t round = 0; round < rounds; ++round) {
    on_round(round);
    if (round % 8 == 7) {
      ASSERT_TRUE(good(worker.set_hot(hot_keys(round))));
      ASSERT_TRUE(good(worker.pull(keys)));
    }
    const std::vector<float> gradients = gradients_of(worker, rank, round, keys);
    std::array<double, 1> number = {rank + 0.5};
    ASSERT_TRUE(good(worker.all_reduce(std::span<double>(number))));
    ASSERT_EQ(number[0], options.workers * options.workers / 2.0);
    const std::vector<uint64_t> next = batch(rank, round + 1);
    std::vector<float> dense(700, static_cast<float>(rank + round));
    ASSERT_TRUE(good(worker.push_pull(gradients.data(), next, dense)));
    const uint32_t sum = options.workers * (options.workers - 1) / 2 + options.workers * round;
    ASSERT_THAT(dense, testing::Each(static_cast<float>(sum)));
    keys = next;
    if (round % 3 == 0) {
      ASSERT_TRUE(good(worker.flush()));
    }
    if (round % 5 == 4) {
      std::vector<float> rows(keys.size() * 6);
      ASSERT_TRUE(good(worker.peek(keys, rows.data())));
      ASSERT_TRUE(good(worker.pull(keys)));
      for (size_t i = 0; i < keys.size(); ++i) {
        ASSERT_EQ(std::memcmp(worker.row(i), rows.data() + 6 * i, 6 * sizeof(float)), 0);
      }
    }
  }
  ASSERT_TRUE(good(worker.set_hot({})));
  std::vector<uint64_t> all;
  for (const auto& [key, row] : reference(options, rounds)) all.push_back(key);
  std::vector<float> rows(all.size() * 6);
  ASSERT_TRUE(good(worker.peek(all, rows.data())));
  if (rank != 0) return;
  for (size_t i = 0; i < all.size(); ++i) {
    final[all[i]].assign(rows.data() + 6 * i, rows.data() + 6 * i + 6);
  }
}

/// A job whose gradients are all 1 and whose optimiser counts: one that is lost or doubled shows in
/// the end.
class CountingJob {
 public:
  CountingJob(bool asynchronous, uint32_t staleness, uint32_t rounds = kRounds,
              uint32_t admit_after = 0)
      : options_(small(3, 2, table::OptimizerKind::kSgd)), rounds_(rounds) {
    options_.shape.init_scale = 0;
    options_.shape.optimizer.rate = 1;
    options_.staleness = staleness;
    options_.asynchronous = asynchronous;
    options_.shape.life.admit_after = admit_after;
    std::map<uint64_t, uint32_t> updates;
    for (uint32_t round = 0; round < rounds; ++round) {
      std::map<uint64_t, float> step;
      for (uint32_t rank = 0; rank < 3; ++rank) {
        for (const uint64_t key : batch(rank, round)) step[key] += 1;
      }
      for (const auto& [key, gradients] : step) {
        const uint32_t moves = asynchronous ? static_cast<uint32_t>(gradients) : 1;
        for (uint32_t move = 0; move < moves; ++move) {
          const bool is_dropped = updates[key]++ < admit_after;
          expected_[key] += is_dropped ? 0 : gradients / static_cast<float>(moves);
        }
      }
    }
  }
  const Options& options() const { return options_; }

  /// A worker's part. @param on_round  before each of its rounds.
  void run(Worker& worker, uint32_t rank, size_t hot,
           const std::function<void(uint32_t round)>& on_round) const {
    ASSERT_TRUE(good(worker.set_hot(hot_keys(hot))));
    ASSERT_TRUE(good(worker.pull(batch(rank, 0))));
    for (uint32_t i = 1; i <= options_.staleness; ++i) {
      ASSERT_TRUE(good(worker.announce(batch(rank, i))));
    }
    for (uint32_t round = 0; round < rounds_; ++round) {
      on_round(round);
      const std::vector<float> ones(6 * worker.keys(), 1.0f);
      const uint32_t next = round + 1 + options_.staleness;
      ASSERT_TRUE(good(worker.push_pull(ones.data(), batch(rank, next))));
      if (round % 5 == 3) {
        ASSERT_TRUE(good(worker.flush()));
      }
    }
    std::array<double, 1> number = {1};
    ASSERT_TRUE(good(worker.all_reduce(std::span<double>(number)))) << "all have given all";
    ASSERT_TRUE(good(worker.set_hot({})));
    std::vector<uint64_t> keys;
    for (const auto& [key, count] : expected_) keys.push_back(key);
    std::vector<float> rows(6 * keys.size());
    ASSERT_TRUE(good(worker.peek(keys, rows.data())));
    for (size_t i = 0; i < keys.size(); ++i) ASSERT_EQ(-rows[6 * i], expected_.at(keys[i]));
  }

 private:
  Options options_;
  uint32_t rounds_;
  std::map<uint64_t, float> expected_;
};

}  // namespace sumcast::sparse
