// The library's asynchronous operations as the pipeline's Averager.
#pragma once

#include <array>
#include <utility>
#include <vector>

#include "base/time.h"
#include "pipeline/averager.h"
#include "pipeline/encoder.h"
#include "sumcast/sumcast.hpp"

namespace sumcast::cli {

/// Over one group; the library's own thread moves the bytes while the caller computes. Notes when
/// means were under way and how long they were waited for. One thread.
class WatchedAverager : public pipeline::Averager {
 public:
  uint32_t ranks() const override { return group_.size(); }
  uint32_t rank() const override { return group_.rank(); }
  Result<void> begin_mean(uint32_t slot, std::span<const float> values,
                          std::span<float> mean) final;
  Result<void> finish_mean(uint32_t slot) final;
  Result<void> begin_sum(uint32_t slot, std::span<double> values) final;
  Result<void> finish_sum(uint32_t slot) final;

  /// For each mean that is done, the time that its begin and finish took together.
  const std::vector<Duration>& waits() const { return waits_; }

  /// Whether begins and ends of means are kept for a time line.
  void record(bool on) { records_ = on; }
  /// Notes which means have ended: a caller that looks often gets their ends to that precision.
  void look();
  /// Begin and end of means that were begun while record() was on.
  const std::vector<std::pair<Instant, Instant>>& recorded() const { return recorded_; }

 protected:
  /// @param group  outlives this.
  /// @param call   of the sums of facts.
  WatchedAverager(Group& group, const Call& call) : group_(group), facts_call_(call) {}
  Group& group() { return group_; }
  /// Waits for the means that nobody has finished, for whoever owns what they write into.
  void settle();

 private:
  /// Begins the operation that will put the mean of `values` into `mean`.
  virtual Result<Work> start(uint32_t slot, std::span<const float> values,
                             std::span<float> mean) = 0;
  /// It has ended.
  virtual Result<void> arrived(uint32_t) { return {}; }

  Group& group_;
  Call facts_call_;
  std::array<Work, kSlots> means_, sums_;
  std::array<bool, kSlots> under_way_{};  ///< Of the means.
  std::array<Instant, kSlots> begun_{};
  std::array<Duration, kSlots> spent_{};
  std::vector<Duration> waits_;
  bool records_ = false;
  std::array<bool, kSlots> open_{};  ///< Begun while recording, and not seen to end.
  std::vector<std::pair<Instant, Instant>> recorded_;
};

/// Means by all-reduce.
class GroupAverager final : public WatchedAverager {
 public:
  /// @param call  of the means; sums of facts go the same way, unrounded.
  GroupAverager(Group& group, const Call& call) : GroupAverager(group, std::vector{call}) {}
  /// @param ways  calls to choose from, one at least; sums of facts go the first one's way.
  GroupAverager(Group& group, std::vector<Call> ways);

  uint32_t ways() const override { return static_cast<uint32_t>(calls_.size()); }
  void choose(uint32_t way) override;

 private:
  Result<Work> start(uint32_t slot, std::span<const float> values, std::span<float> mean) override;

  std::vector<Call> calls_;
  uint32_t way_ = 0;
};

/// Means of encoders' messages, which every rank gathers and adds up in the order of ranks.
class GatherAverager final : public WatchedAverager {
 public:
  /// @param encoder  of the pipeline whose means these are: begin_mean() is called right after its
  ///                 encode(), and what its message() says is what travels. Outlives this.
  GatherAverager(Group& group, const pipeline::Encoder& encoder);
  /// Waits for what is under way, at most until it times out: it writes into buffers of this
  /// object.
  ~GatherAverager() override { settle(); }

 private:
  Result<Work> start(uint32_t slot, std::span<const float> values, std::span<float> mean) override;
  Result<void> arrived(uint32_t slot) override;

  struct Gathered {
    std::vector<std::byte> own, all;
    std::span<float> mean;
  };
  const pipeline::Encoder& encoder_;
  std::array<Gathered, kSlots> slots_;
};

/// A mean of `ranks` messages that lie one after the other in `all`, in the order of ranks.
Result<void> mean_of_messages(const pipeline::Encoder& encoder, std::span<const std::byte> all,
                              uint32_t ranks, std::span<float> mean);

}  // namespace sumcast::cli
