// How the pipeline reaches the other ranks: sums that run while it computes.
//
// Operations are called in the same order on all ranks, and may end in any order. A buffer belongs
// to the operation from begin to finish. Who implements it decides on algorithm, wire type and
// deadlines; the library's asynchronous handles are the second thread of every worker.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <span>

#include "base/result.h"

namespace sumcast::pipeline {

class Averager {
 public:
  virtual ~Averager() = default;

  /// How many ranks take part, at least 1.
  virtual uint32_t ranks() const = 0;
  /// This rank's place among them.
  virtual uint32_t rank() const = 0;

  /// Begins to put the mean of `values` over ranks into `mean`, the same bits on each. Both are of
  /// one size, and the same memory or apart. `slot` names the operation, below kSlots, and is free
  /// again after its finish.
  virtual Result<void> begin_mean(uint32_t slot, std::span<const float> values,
                                  std::span<float> mean) = 0;
  /// Waits until it is done, at most until the operation's own deadline.
  virtual Result<void> finish_mean(uint32_t slot) = 0;

  /// How many ways of summing means it has (algorithms, wire types), and the one for those that
  /// begin from now on, counted from 0. All ranks choose at the same mean.
  virtual uint32_t ways() const { return 1; }
  virtual void choose(uint32_t) {}

  /// The same for sums of a few numbers; slots are their own.
  virtual Result<void> begin_sum(uint32_t slot, std::span<double> values) = 0;
  virtual Result<void> finish_sum(uint32_t slot) = 0;

  static constexpr uint32_t kSlots = 16;
};

/// Over a reduction that blocks: all happens in begin. For one process, and for tests.
class BlockingAverager final : public Averager {
 public:
  /// Replaces values by their mean.
  using Mean = std::function<Result<void>(std::span<float>)>;
  using Sum = std::function<Result<void>(std::span<double>)>;
  BlockingAverager(uint32_t rank, uint32_t ranks, Mean mean, Sum sum)
      : rank_(rank), ranks_(ranks), mean_(std::move(mean)), sum_(std::move(sum)) {}
  /// One rank alone: a mean is what it was.
  BlockingAverager()
      : BlockingAverager(
            0, 1, [](std::span<float>) { return Result<void>(); },
            [](std::span<double>) { return Result<void>(); }) {}

  uint32_t ranks() const override { return ranks_; }
  uint32_t rank() const override { return rank_; }
  Result<void> begin_mean(uint32_t, std::span<const float> values, std::span<float> mean) override {
    if (values.data() != mean.data()) std::ranges::copy(values, mean.begin());
    return mean_(mean);
  }
  Result<void> finish_mean(uint32_t) override { return {}; }
  Result<void> begin_sum(uint32_t, std::span<double> values) override { return sum_(values); }
  Result<void> finish_sum(uint32_t) override { return {}; }

 private:
  uint32_t rank_;
  uint32_t ranks_;
  Mean mean_;
  Sum sum_;
};

}  // namespace sumcast::pipeline
