// The library's asynchronous all-reduce as the pipeline's Averager.
#pragma once

#include <array>
#include <utility>
#include <vector>

#include "base/time.h"
#include "pipeline/averager.h"
#include "sumcast/sumcast.hpp"

namespace sumcast::cli {

/// Over one group; the library's own thread moves the datagrams while the caller computes. One
/// thread.
class GroupAverager final : public pipeline::Averager {
 public:
  /// @param group  outlives this.
  /// @param call   of the means; sums of facts go the same way, unrounded.
  GroupAverager(Group& group, const Call& call) : group_(group), call_(call) {}

  uint32_t ranks() const override { return group_.size(); }
  uint32_t rank() const override { return group_.rank(); }
  Result<void> begin_mean(uint32_t slot, std::span<float> values) override;
  Result<void> finish_mean(uint32_t slot) override;
  Result<void> begin_sum(uint32_t slot, std::span<double> values) override;
  Result<void> finish_sum(uint32_t slot) override;

  /// For each mean that is done, the time that its begin and finish took together.
  const std::vector<Duration>& waits() const { return waits_; }

  /// Whether begins and ends of means are kept for a time line.
  void record(bool on) { records_ = on; }
  /// Notes which means have ended: a caller that looks often gets their ends to that precision.
  void look();
  /// Begin and end of means that were begun while record() was on.
  const std::vector<std::pair<Instant, Instant>>& recorded() const { return recorded_; }

 private:
  Group& group_;
  Call call_;
  std::array<Work, kSlots> means_, sums_;
  std::array<Instant, kSlots> begun_{};
  std::array<Duration, kSlots> spent_{};
  std::vector<Duration> waits_;
  bool records_ = false;
  std::array<bool, kSlots> open_{};  ///< Begun while recording, and not seen to end.
  std::vector<std::pair<Instant, Instant>> recorded_;
};

}  // namespace sumcast::cli
