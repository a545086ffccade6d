// Ranks as threads of one test, their sums in rank order: an Averager that behaves like a network.
//
// It reads a contribution as late as it may, when its rank comes to finish: who let the next
// backward overwrite a gradient in flight would be found out.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <tuple>
#include <variant>
#include <vector>

#include "pipeline/averager.h"

namespace sumcast::pipeline::testing {

class Switchboard {
 public:
  explicit Switchboard(uint32_t ranks) : ranks_(ranks) {}

  uint32_t ranks() const { return ranks_; }

  /// All ranks' `sequence`-th exchange; `values` become their sum in rank order, over `divisor`.
  Result<void> add(uint64_t sequence, uint32_t rank, std::span<double> values, double divisor) {
    std::unique_lock lock(mutex_);
    Exchange& exchange = exchanges_[sequence];
    exchange.shares.resize(ranks_);
    exchange.shares[rank].assign(values.begin(), values.end());
    ++exchange.arrived;
    changed_.notify_all();
    const bool met = changed_.wait_for(lock, std::chrono::seconds(20),
                                       [&] { return exchange.arrived == ranks_ || failed_; });
    if (!met || failed_) {
      failed_ = true;
      changed_.notify_all();
      return fail(ErrorCode::kAborted, "a rank is missing");
    }
    for (size_t i = 0; i < values.size(); ++i) {
      double sum = 0;
      for (const auto& share : exchange.shares) {
        if (share.size() != values.size()) return fail(ErrorCode::kMismatch, "sizes differ");
        sum += share[i];
      }
      values[i] = sum / divisor;
    }
    return {};
  }
  /// No exchange succeeds any more.
  void fail_all() {
    const std::lock_guard lock(mutex_);
    failed_ = true;
    changed_.notify_all();
  }

 private:
  struct Exchange {
    std::vector<std::vector<double>> shares;
    uint32_t arrived = 0;
  };

  uint32_t ranks_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<uint64_t, Exchange> exchanges_;
  bool failed_ = false;
};

class TestAverager final : public Averager {
 public:
  TestAverager(Switchboard& board, uint32_t rank) : board_(board), rank_(rank) {}

  uint32_t ranks() const override { return board_.ranks(); }
  uint32_t rank() const override { return rank_; }
  Result<void> begin_mean(uint32_t slot, std::span<const float> values,
                          std::span<float> mean) override {
    if (means_.contains(slot)) return fail(ErrorCode::kInternal, "slot in use");
    means_[slot] = {next_++, values, mean};
    most_ = std::max(most_, means_.size());
    return {};
  }
  Result<void> finish_mean(uint32_t slot) override {
    const auto [sequence, values, mean] = means_.at(slot);
    means_.erase(slot);
    std::vector<double> wide(values.begin(), values.end());
    auto done = board_.add(sequence, rank_, wide, board_.ranks());
    for (size_t i = 0; i < values.size(); ++i) mean[i] = static_cast<float>(wide[i]);
    return done;
  }
  Result<void> begin_sum(uint32_t slot, std::span<double> values) override {
    sums_[slot] = {next_++, values};
    return {};
  }
  Result<void> finish_sum(uint32_t slot) override {
    const auto [sequence, values] = sums_.at(slot);
    sums_.erase(slot);
    return board_.add(sequence, rank_, values, 1);
  }
  /// Means under way at once, at most.
  size_t most_under_way() const { return most_; }

 private:
  Switchboard& board_;
  uint32_t rank_;
  uint64_t next_ = 0;
  std::map<uint32_t, std::tuple<uint64_t, std::span<const float>, std::span<float>>> means_;
  std::map<uint32_t, std::pair<uint64_t, std::span<double>>> sums_;
  size_t most_ = 0;
};

/// Runs `body(averager)` once per rank, each in a thread of its own.
inline void run_ranks(uint32_t ranks, const std::function<void(TestAverager&)>& body) {
  Switchboard board(ranks);
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      TestAverager averager(board, rank);
      body(averager);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace sumcast::pipeline::testing
