// How a worker's operations outlive the aggregator (P17).
#include <array>
#include <cstring>

#include <fmt/format.h>

#include "sparse/worker.h"

namespace sumcast::sparse {

/// Does one operation that needs no servers, in as many contexts as it takes. Flights have landed
/// before.
///
/// @param run    may be run again from its beginning: what it reads stays, and it has no effect on
///               what this worker knows until all workers have begun it.
/// @param again  the same messages and addends once it has ended, whatever is current then; without
///               effects.
Result<void> Worker::perform(const Action& run, Action again) {
  if (auto agreed = agree_on_return(); !agreed) return agreed;
  return perform_here(run, std::move(again));
}

Result<void> Worker::perform_here(const Action& run, Action again) {
  if (auto landed = land_all(); !landed) return landed;
  for (;;) {
    auto done = run();
    if (done) break;
    if (auto recovered = recover(done.error()); !recovered) return recovered;
  }
  ++completed_;
  if (seat_ != nullptr) past_.push_back({completed_, nullptr, std::move(again)});
  forget_past();
  return {};
}

/// On success flights are under way anew, and an operation that has none is to be run from its
/// beginning.
Result<void> Worker::recover(const Error& why) {
  Error error = why;
  for (;;) {
    if (auto moved = move_on(error); !moved) return moved;
    auto level = help_others();
    if (level) level = post_anew();
    if (level) return {};
    error = level.error();
  }
}

/// What was under way when the context was lost. Servers apply what they had not. Bodies of a
/// segment are received in the order of rounds, so each goes out whole before the next.
Result<void> Worker::post_anew() {
  for (const FlightPtr& flight : flights_) {
    if (flight->is_landed) continue;
    if (auto posted = post(*flight, /*at_once=*/true); !posted) return posted;
  }
  return {};
}

/// Takes the next place. Nothing of the old one is under way any more, for its groups are fenced.
Result<void> Worker::move_on(const Error& why) {
  if (seat_ == nullptr || !seat_->is_lost(why)) return fail(why);
  group_.abort(why.what);
  context_->world().abort(why.what);
  if (auto moved = seat_->move_on(why, fmt::format("{} steps are given", clock_.given())); !moved) {
    return moved;
  }
  enter_context();
  return {};
}

/// The seat's present one: nothing is under way there, and its servers know nothing of batches.
void Worker::enter_context() {
  context_ = &seat_->context();
  context_->world().bound_inflow(worker_window_bytes(options_.workers));
  group_ = seat_->team();
  ++entered_;
  entered_at_ = launched_;
  return_at_.reset();
  round_ = 0;
  flush_sent_ = false;
  flushing_.reset();
  for (const FlightPtr& flight : flights_) {
    flight->ground();
    flight->pushed.is_listed = flight->pulled.is_listed = false;
  }
  current_.is_listed = false;
  echoes_.clear();
  counters_.failovers = seat_->failovers();
  counters_.returns = seat_->returns();
}

/// Brings all workers to the same number of finished operations.
Result<void> Worker::help_others() {
  const auto mine = static_cast<int64_t>(completed_);
  std::array<int64_t, 2> both = {mine, -mine};
  auto done = group_.all_reduce(std::span<int64_t>(both), Reduction::kMax);
  if (!done) return done;
  const int64_t most = both[0], least = -both[1];
  if (most - least > options_.staleness + 1) {
    return fail(ErrorCode::kInternal,
                fmt::format("sparse: a worker has finished {} operations, another {}: they cannot "
                            "be brought together; start from the last checkpoint",
                            most, least));
  }
  for (int64_t operation = least + 1; operation <= mine; ++operation) {
    if (auto repeated = repeat(static_cast<uint64_t>(operation)); !repeated) return repeated;
  }
  return {};
}

Result<void> Worker::repeat(uint64_t operation) {
  ++counters_.repeated;
  for (const Past& past : past_) {
    if (past.operation == operation) return past.flight ? echo(*past.flight) : past.again();
  }
  for (const FlightPtr& flight : flights_) {
    if (flight->operation == operation) return echo(*flight);
  }
  return fail(ErrorCode::kInternal,
              fmt::format("sparse: operation {} is wanted again, and forgotten", operation));
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
