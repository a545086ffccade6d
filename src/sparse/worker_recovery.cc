// How a worker's operations outlive the aggregator (P17).
#include <array>
#include <cstring>

#include <fmt/format.h>

#include "sparse/worker.h"

namespace sumcast::sparse {

/// Does one operation, in as many contexts as it takes.
///
/// @param run    may be run again from its beginning: what it reads stays, and it has no effect on
///               what this worker knows until all workers have begun it.
/// @param again  the same messages and addends once it has ended, whatever is current then; without
///               effects. Valid until the next operation has ended.
Result<void> Worker::perform(const Action& run, Action again) {
  for (;;) {
    auto done = run();
    if (done) break;
    if (auto recovered = recover(done.error()); !recovered) return recovered;
  }
  ++completed_;
  again_ = std::move(again);
  return {};
}

/// One that goes to the servers: what is due to be flushed goes before it, and has arrived behind
/// it.
Result<void> Worker::perform_round(const Action& run, Action again) {
  const auto run_flushed = [&]() -> Result<void> {
    if (auto sent = send_flush(); !sent) return sent;
    return run();
  };
  Action again_flushed = [this, again = std::move(again),
                          had_flush = flush_due_]() -> Result<void> {
    if (had_flush) {
      if (auto sent = send_assignments(no_parts_); !sent) return sent;
    }
    return again();
  };
  if (auto done = perform(run_flushed, std::move(again_flushed)); !done) return done;
  if (flush_due_) hot_->end_flush();
  flush_due_ = flush_sent_ = false;
  return {};
}

/// On success the operation under way is to be run from its beginning.
Result<void> Worker::recover(const Error& why) {
  Error error = why;
  for (;;) {
    if (auto moved = move_on(error); !moved) return moved;
    auto level = help_others();
    if (level) return {};
    error = level.error();
  }
}

/// Takes the next context. Nothing of the old one is under way any more, for its groups are fenced.
Result<void> Worker::move_on(const Error& why) {
  if (seat_ == nullptr || !seat_->is_lost(why)) return fail(why);
  group_.abort(why.what);
  context_->world().abort(why.what);
  if (auto moved = seat_->move_on(why, fmt::format("{} steps are done", steps_)); !moved) {
    return moved;
  }
  context_ = &seat_->context();
  group_ = groups_[seat_->at()];
  round_ = 0;
  flush_sent_ = false;
  plans_sent_.reset();
  flushing_.reset();
  under_way_.clear();
  bytes_under_way_ = 0;
  ++counters_.failovers;
  return {};
}

/// Brings all workers to the same number of finished operations.
Result<void> Worker::help_others() {
  const auto mine = static_cast<int64_t>(completed_);
  std::array<int64_t, 2> both = {mine, -mine};
  auto done = group_.all_reduce(std::span<int64_t>(both), Reduction::kMax);
  if (!done) return done;
  const int64_t most = both[0], least = -both[1];
  if (most - least > 1) {
    return fail(ErrorCode::kInternal,
                fmt::format("sparse: a worker has finished {} operations, another {}: they cannot "
                            "be brought together; start from the last checkpoint",
                            most, least));
  }
  if (most == least || mine == least) return {};
  ++counters_.repeated;
  return again_();
}

Result<void> Worker::all_reduce(void* data, uint64_t count, ElementType type, Reduction reduction) {
  if (failed_) return fail(*failed_);
  const size_t bytes = count * element_bytes(type);
  const auto* const from = static_cast<const std::byte*>(data);
  // What a failed attempt leaves in `data` is no input.
  std::vector<std::byte> inputs;
  if (seat_ != nullptr) inputs.assign(from, from + bytes);
  const auto run = [&] {
    if (seat_ != nullptr && bytes != 0) std::memcpy(data, inputs.data(), bytes);
    return group_.all_reduce(data, data, count, type, reduction);
  };
  Action again = [this, inputs, count, type, reduction] {
    std::vector<std::byte> sum(inputs.size());
    return group_.all_reduce(inputs.data(), sum.data(), count, type, reduction);
  };
  if (auto done = perform(run, std::move(again)); !done) return fail_with(done.error());
  return {};
}

Result<void> Worker::broadcast(void* data, uint64_t count, ElementType type) {
  if (failed_) return fail(*failed_);
  const size_t bytes = count * element_bytes(type);
  const auto* const from = static_cast<const std::byte*>(data);
  std::vector<std::byte> told;
  if (seat_ != nullptr) told.assign(from, from + bytes);
  const auto run = [&] { return group_.broadcast(data, count, type, 0); };
  Action again = [this, told, count, type]() mutable {
    return group_.broadcast(told.data(), count, type, 0);
  };
  if (auto done = perform(run, std::move(again)); !done) return fail_with(done.error());
  return {};
}

Result<void> Worker::all_gather(const void* mine, void* all, uint64_t count, ElementType type) {
  if (failed_) return fail(*failed_);
  const size_t bytes = count * element_bytes(type);
  const auto* const from = static_cast<const std::byte*>(mine);
  std::vector<std::byte> inputs;
  if (seat_ != nullptr) inputs.assign(from, from + bytes);
  const auto run = [&] {
    return group_.all_gather(seat_ != nullptr ? inputs.data() : mine, all, count, type);
  };
  Action again = [this, inputs, count, type] {
    std::vector<std::byte> gathered(inputs.size() * options_.workers);
    return group_.all_gather(inputs.data(), gathered.data(), count, type);
  };
  if (auto done = perform(run, std::move(again)); !done) return fail_with(done.error());
  return {};
}

}  // namespace sumcast::sparse
