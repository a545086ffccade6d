#include "pipeline/local_ranks.h"

#include <algorithm>

namespace sumcast::pipeline {

void LocalRanks::give_up(const std::string& reason) {
  const std::lock_guard lock(mutex_);
  if (failure_.empty()) failure_ = reason;
  changed_.notify_all();
}

Result<void> LocalRanks::meet() {
  std::unique_lock lock(mutex_);
  const uint64_t meeting = meetings_;
  if (++here_ == ranks_) {
    here_ = 0;
    ++meetings_;
    changed_.notify_all();
  }
  const bool met =
      changed_.wait_for(lock, patience_, [&] { return meetings_ != meeting || !failure_.empty(); });
  if (!met && failure_.empty()) failure_ = "a rank did not come";
  if (failure_.empty()) return {};
  changed_.notify_all();
  return fail(ErrorCode::kAborted, failure_);
}

template <typename T>
Result<void> LocalRanks::add(uint32_t rank, std::span<const T> values, std::span<T> out,
                             std::vector<T>& sums, T divisor) {
  {
    const std::lock_guard lock(mutex_);
    shares_.resize(ranks_);
    counts_.resize(ranks_);
    shares_[rank] = values.data();
    counts_[rank] = values.size();
    if (sums.size() < values.size()) sums.resize(values.size());
  }
  if (auto met = meet(); !met) return met;
  if (std::any_of(counts_.begin(), counts_.end(), [&](size_t c) { return c != values.size(); })) {
    return fail(ErrorCode::kMismatch, "ranks add different numbers of values");
  }
  // Each rank adds its own stretch, in rank order.
  const size_t first = values.size() * rank / ranks_, end = values.size() * (rank + 1) / ranks_;
  for (size_t i = first; i < end; ++i) {
    T sum = static_cast<const T*>(shares_[0])[i];
    for (uint32_t r = 1; r < ranks_; ++r) sum += static_cast<const T*>(shares_[r])[i];
    sums[i] = sum / divisor;
  }
  if (auto met = meet(); !met) return met;
  std::copy_n(sums.begin(), values.size(), out.begin());
  return meet();
}

Result<void> LocalAverager::begin_mean(uint32_t slot, std::span<const float> values,
                                       std::span<float> mean) {
  means_[slot] = {values, mean};
  return {};
}
Result<void> LocalAverager::finish_mean(uint32_t slot) {
  const auto& [values, mean] = means_[slot];
  return all_.add(rank_, values, mean, all_.means_, static_cast<float>(all_.ranks()));
}
Result<void> LocalAverager::begin_sum(uint32_t slot, std::span<double> values) {
  sums_[slot] = values;
  return {};
}
Result<void> LocalAverager::finish_sum(uint32_t slot) {
  const std::span<double> values = sums_[slot];
  return all_.add<double>(rank_, values, values, all_.sums_, 1.0);
}

}  // namespace sumcast::pipeline
