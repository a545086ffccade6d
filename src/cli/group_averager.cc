#include "cli/group_averager.h"

#include <algorithm>

#include "base/assert.h"
#include "runtime/clock.h"

namespace sumcast::cli {

Result<void> WatchedAverager::begin_mean(uint32_t slot, std::span<const float> values,
                                         std::span<float> mean) {
  begun_[slot] = runtime::monotonic_now();
  Result<Work> work = start(slot, values, mean);
  if (!work) return fail(work.error());
  means_[slot] = std::move(*work);
  under_way_[slot] = true;
  open_[slot] = records_;
  spent_[slot] = runtime::monotonic_now() - begun_[slot];
  return {};
}

Result<void> WatchedAverager::finish_mean(uint32_t slot) {
  const Instant start = runtime::monotonic_now();
  Result<void> done = means_[slot].wait();
  under_way_[slot] = false;
  look();
  waits_.push_back(spent_[slot] + (runtime::monotonic_now() - start));
  return done ? arrived(slot) : done;
}

void WatchedAverager::settle() {
  for (size_t slot = 0; slot < kSlots; ++slot) {
    if (under_way_[slot]) static_cast<void>(means_[slot].wait());
    under_way_[slot] = false;
  }
}

void WatchedAverager::look() {
  for (size_t slot = 0; slot < kSlots; ++slot) {
    if (!open_[slot] || !means_[slot].is_done()) continue;
    open_[slot] = false;
    recorded_.emplace_back(begun_[slot], runtime::monotonic_now());
  }
}

Result<void> WatchedAverager::begin_sum(uint32_t slot, std::span<double> values) {
  Result<Work> work = group_.all_reduce_async(values.data(), values.data(), values.size(),
                                              ElementType::kF64, Reduction::kSum, facts_call_);
  if (!work) return fail(work.error());
  sums_[slot] = std::move(*work);
  return {};
}

Result<void> WatchedAverager::finish_sum(uint32_t slot) { return sums_[slot].wait(); }

GroupAverager::GroupAverager(Group& group, std::vector<Call> ways)
    : WatchedAverager(group, Call{ways.at(0).algorithm, WireFormat::kNative, ways.at(0).timeout}),
      calls_(std::move(ways)) {}

void GroupAverager::choose(uint32_t way) {
  SUMCAST_ASSERT(way < calls_.size());
  way_ = way;
}

Result<Work> GroupAverager::start(uint32_t, std::span<const float> values, std::span<float> mean) {
  return group().all_reduce_async(values.data(), mean.data(), values.size(), ElementType::kF32,
                                  Reduction::kAvg, calls_[way_]);
}

GatherAverager::GatherAverager(Group& group, const pipeline::Encoder& encoder)
    : WatchedAverager(group, Call{}), encoder_(encoder) {}

Result<Work> GatherAverager::start(uint32_t slot, std::span<const float> values,
                                   std::span<float> mean) {
  Gathered& to = slots_[slot];
  const std::span<const std::byte> message = encoder_.message();
  SUMCAST_ASSERT(static_cast<double>(message.size()) == encoder_.bytes(values.size()));
  to.own.assign(message.begin(), message.end());
  to.all.resize(message.size() * ranks());
  to.mean = mean;
  return group().all_gather_async(to.own.data(), to.all.data(), to.own.size(), ElementType::kU8,
                                  Call{Algorithm::kRing});
}

Result<void> GatherAverager::arrived(uint32_t slot) {
  const Gathered& from = slots_[slot];
  return mean_of_messages(encoder_, from.all, ranks(), from.mean);
}

Result<void> mean_of_messages(const pipeline::Encoder& encoder, std::span<const std::byte> all,
                              uint32_t ranks, std::span<float> mean) {
  SUMCAST_ASSERT(ranks >= 1);
  std::fill(mean.begin(), mean.end(), 0.0f);
  const size_t bytes = all.size() / ranks;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    if (auto added = encoder.add_message(all.subspan(rank * bytes, bytes), mean); !added) {
      return added;
    }
  }
  const float share = 1.0f / static_cast<float>(ranks);
  for (float& value : mean) value *= share;
  return {};
}

}  // namespace sumcast::cli
