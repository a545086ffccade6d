#include "cli/group_averager.h"

#include "runtime/clock.h"

namespace sumcast::cli {

Result<void> GroupAverager::begin_mean(uint32_t slot, std::span<float> values) {
  begun_[slot] = runtime::monotonic_now();
  Result<Work> work = group_.all_reduce_async(values.data(), values.data(), values.size(),
                                              ElementType::kF32, Reduction::kAvg, call_);
  if (!work) return fail(work.error());
  means_[slot] = std::move(*work);
  open_[slot] = records_;
  spent_[slot] = runtime::monotonic_now() - begun_[slot];
  return {};
}

Result<void> GroupAverager::finish_mean(uint32_t slot) {
  const Instant start = runtime::monotonic_now();
  Result<void> done = means_[slot].wait();
  look();
  waits_.push_back(spent_[slot] + (runtime::monotonic_now() - start));
  return done;
}

void GroupAverager::look() {
  for (size_t slot = 0; slot < kSlots; ++slot) {
    if (!open_[slot] || !means_[slot].is_done()) continue;
    open_[slot] = false;
    recorded_.emplace_back(begun_[slot], runtime::monotonic_now());
  }
}

Result<void> GroupAverager::begin_sum(uint32_t slot, std::span<double> values) {
  Call call = call_;
  call.wire = WireFormat::kNative;
  Result<Work> work = group_.all_reduce_async(values.data(), values.data(), values.size(),
                                              ElementType::kF64, Reduction::kSum, call);
  if (!work) return fail(work.error());
  sums_[slot] = std::move(*work);
  return {};
}

Result<void> GroupAverager::finish_sum(uint32_t slot) { return sums_[slot].wait(); }

}  // namespace sumcast::cli
