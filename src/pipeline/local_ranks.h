// Ranks as threads of one process, their means exact and in rank order: training over n workers
// without a network, where learning is what is studied and time is not.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/time.h"
#include "pipeline/averager.h"

namespace sumcast::pipeline {

/// Where the ranks meet. Shared by their LocalAveragers, each in a thread of its own.
class LocalRanks {
 public:
  /// @param patience  how long a rank waits for the others before all fail.
  LocalRanks(uint32_t ranks, Duration patience) : ranks_(ranks), patience_(patience) {}

  uint32_t ranks() const { return ranks_; }
  /// Ends all waits, now and later: a rank has failed. The first reason counts.
  void give_up(const std::string& reason);

 private:
  friend class LocalAverager;
  /// Returns when all ranks are here.
  Result<void> meet();
  template <typename T>
  Result<void> add(uint32_t rank, std::span<const T> values, std::span<T> out, std::vector<T>& sums,
                   T divisor);

  uint32_t ranks_;
  Duration patience_;
  std::mutex mutex_;
  std::condition_variable changed_;
  uint32_t here_ = 0;
  uint64_t meetings_ = 0;
  std::string failure_;
  std::vector<const void*> shares_;
  std::vector<size_t> counts_;
  std::vector<float> means_;
  std::vector<double> sums_;
};

/// One rank's side. What began is added up when it is finished, so that a buffer that is touched
/// meanwhile would show.
class LocalAverager final : public Averager {
 public:
  LocalAverager(LocalRanks& ranks, uint32_t rank) : all_(ranks), rank_(rank) {}

  uint32_t ranks() const override { return all_.ranks(); }
  uint32_t rank() const override { return rank_; }
  Result<void> begin_mean(uint32_t slot, std::span<const float> values,
                          std::span<float> mean) override;
  Result<void> finish_mean(uint32_t slot) override;
  Result<void> begin_sum(uint32_t slot, std::span<double> values) override;
  Result<void> finish_sum(uint32_t slot) override;

 private:
  LocalRanks& all_;
  uint32_t rank_;
  std::pair<std::span<const float>, std::span<float>> means_[kSlots];  ///< Values and mean.
  std::span<double> sums_[kSlots];
};

}  // namespace sumcast::pipeline
