#include "sparse/worker.h"

#include <fmt/format.h>

#include <cstring>
#include <utility>

#include "numeric/codec.h"
#include "sparse/server.h"

namespace sumcast::sparse {
namespace {

constexpr std::chrono::nanoseconds kLeavePatience = std::chrono::seconds(2);

}  // namespace

Worker::Worker(Context& context, Seat* seat, const Options& options, std::vector<Group> groups)
    : context_(&context),
      seat_(seat),
      options_(options),
      gradient_bytes_(numeric::payload_bytes(ElementType::kF32, options.wire, options.shape.width)),
      plans_(options.servers),
      parts_(size_t{options.servers} * options.segments),
      next_parts_(parts_.size()),
      no_parts_(parts_.size()),
      legs_(parts_.size()),
      acks_(options.servers),
      flush_plans_(options.servers),
      flush_bodies_(parts_.size()),
      last_number_(options.restore ? options.restore->number : 0),
      manifest_(options.restore),
      groups_(std::move(groups)),
      group_(groups_[seat == nullptr ? 0 : seat->at()]) {
  call_.wire = options.wire;
}

Result<std::unique_ptr<Worker>> Worker::create(Context& context, const Options& options) {
  Context* const only = &context;
  return create_in(std::span(&only, 1), nullptr, options);
}

Result<std::unique_ptr<Worker>> Worker::create(Seat& seat, const Options& options) {
  std::vector<Context*> contexts;
  for (size_t i = 0; i < seat.contexts(); ++i) contexts.push_back(&seat.context(i));
  return create_in(contexts, &seat, options);
}

Result<std::unique_ptr<Worker>> Worker::create_in(std::span<Context* const> contexts, Seat* seat,
                                                  const Options& options) {
  Context& context = seat == nullptr ? *contexts.front() : seat->context();
  if (auto agreed = agree_on(context, options); !agreed) return fail(agreed.error());
  if (context.rank() >= options.workers) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("sparse: rank {} is a server, not a worker", context.rank()));
  }
  std::vector<uint32_t> ranks(options.workers);
  for (uint32_t rank = 0; rank < options.workers; ++rank) ranks[rank] = rank;
  std::vector<Group> groups;
  for (Context* const one : contexts) {
    auto group = one->new_group(ranks, "sparse workers");
    if (!group) {
      context.world().abort("sparse: " + group.error().what);  // Servers wait for plans by now.
      return fail(group.error());
    }
    groups.push_back(std::move(*group));
  }
  return std::unique_ptr<Worker>(new Worker(context, seat, options, std::move(groups)));
}

/// Nobody needs this worker's last operation any more when all have finished it.
Worker::~Worker() {
  if (failed_) return;
  if (seat_ != nullptr) {
    Call call;
    call.timeout = kLeavePatience;
    const auto meet = [this, call] { return group_.barrier(call); };
    (void)perform(meet, meet);
  }
  for (;;) {
    auto left = say_leave();
    if (left || seat_ == nullptr || !seat_->has_standby() || !move_on(left.error())) break;
  }
  if (const auto ended = context_->world().aborted()) {
    group_.abort(ended->what);  // A fence: nothing of ours is touched after it.
  }
}

Result<void> Worker::say_leave() {
  if (const auto ended = context_->world().aborted()) return fail(*ended);
  if (flushing_) (void)flushing_->wait(kLeavePatience);
  std::vector<Message> sends, receives;
  Plan leave;
  leave.task = Task::kLeave;
  leave.round = round_;
  for (uint32_t server = 0; server < options_.servers; ++server) {
    const uint32_t peer = options_.workers + server;
    sends.push_back({&leave, plan_bytes(options_.segments), peer, kPlanTag, 0});
    if (seat_ != nullptr) {
      receives.push_back({&acks_[server], sizeof(uint32_t), peer, kAckTag, round_});
    }
  }
  Call call;
  call.timeout = kLeavePatience;
  return context_->world().exchange(sends, receives, call);
}

/// Ends the job on all members. Fences: afterwards no memory of this worker is used by others.
Result<void> Worker::fail_with(const Error& error) {
  if (!failed_) {
    failed_ = error;
    group_.abort(error.what);
    context_->world().abort(error.what);
    if (seat_ != nullptr) seat_->end(error.what);
  }
  return fail(*failed_);
}

Worker::Part& Worker::part_of(Parts& parts, uint64_t key) const {
  const uint64_t mixed = table::mix_key(key);
  return parts[size_t{server_of(mixed, options_)} * options_.segments +
               segment_of(mixed, options_)];
}

/// Which of the next keys are hot, and who holds the others. Servers look for cold keys that come
/// twice; hot ones are looked for here.
Result<void> Worker::sort_keys(std::span<const uint64_t> keys) {
  for (Part& part : next_parts_) part.keys.clear(), part.places.clear();
  next_hot_slots_.clear();
  next_hot_places_.clear();
  if (hot_) hot_->begin_batch();
  for (uint32_t place = 0; place < keys.size(); ++place) {
    const uint32_t slot = hot_ ? hot_->slot_of(keys[place]) : table::RowTable::kNone;
    if (slot != table::RowTable::kNone) {
      if (!hot_->add_to_batch(slot)) {
        return fail(ErrorCode::kInvalidArgument,
                    fmt::format("sparse: key {} comes twice in one batch", keys[place]));
      }
      next_hot_slots_.push_back(slot);
      next_hot_places_.push_back(place);
      continue;
    }
    Part& part = part_of(next_parts_, keys[place]);
    part.keys.push_back(keys[place]);
    part.places.push_back(place);
  }
  return {};
}

/// What was asked for has come: the next keys are the current ones.
void Worker::place_rows(std::span<const uint64_t> keys) {
  std::swap(parts_, next_parts_);
  std::swap(hot_slots_, next_hot_slots_);
  std::swap(hot_places_, next_hot_places_);
  rows_.assign(keys.size(), nullptr);
  for (size_t part = 0; part < parts_.size(); ++part) {
    counters_.cold_pulled += parts_[part].keys.size();
    for (size_t i = 0; i < parts_[part].places.size(); ++i) {
      rows_[parts_[part].places[i]] = legs_[part].reply.data() + i * options_.shape.width;
    }
  }
  for (size_t i = 0; i < hot_places_.size(); ++i) rows_[hot_places_[i]] = hot_->row(hot_slots_[i]);
}

void Worker::forget_keys() {
  for (Part& part : parts_) part.keys.clear(), part.places.clear();
  hot_slots_.clear();
  hot_places_.clear();
  rows_.clear();
}

Result<void> Worker::pull(std::span<const uint64_t> keys) {
  if (failed_) return fail(*failed_);
  if (auto sorted = sort_keys(keys); !sorted) return sorted;
  auto done =
      perform_round([this] { return run_cold({.task = Task::kStep, .pull = &next_parts_}); },
                    [this] { return run_cold({.task = Task::kStep, .pull = &parts_}); });
  if (!done) return fail_with(done.error());
  place_rows(keys);
  return {};
}

Result<void> Worker::push_pull(const float* gradients, std::span<const uint64_t> next,
                               std::span<float> dense) {
  if (failed_) return fail(*failed_);
  if (gradients == nullptr && !rows_.empty()) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("sparse: no gradients for {} current keys", rows_.size()));
  }
  if (auto sorted = sort_keys(next); !sorted) return sorted;
  dense_.assign(dense.begin(), dense.end());
  auto done = perform_round([&] { return step(gradients, dense); },
                            [this, number = steps_ + 1] { return repeat_step(number); });
  if (!done) return fail_with(done.error());
  count_step();
  place_rows(next);
  return {};
}

/// All sums are in, and all servers have committed.
void Worker::count_step() {
  ++steps_;
  counters_.hot_pushed += hot_slots_.size();
  for (const Part& part : parts_) counters_.cold_pushed += part.keys.size();
  if (hot_) counters_.hot_moved += hot_->apply();
  std::swap(dense_, last_dense_);
}

Result<void> Worker::peek(std::span<const uint64_t> keys, float* rows) {
  if (failed_) return fail(*failed_);
  if (auto sorted = sort_keys(keys); !sorted) return sorted;
  forget_keys();
  auto done =
      perform_round([this] { return fetch(next_parts_); }, [this] { return fetch(no_parts_); });
  if (!done) return fail_with(done.error());
  const size_t lanes = options_.shape.record_lanes(), width = options_.shape.width;
  for (size_t part = 0; part < next_parts_.size(); ++part) {
    for (size_t i = 0; i < next_parts_[part].places.size(); ++i) {
      std::memcpy(rows + next_parts_[part].places[i] * width, legs_[part].reply.data() + i * lanes,
                  width * sizeof(float));
    }
  }
  for (size_t i = 0; i < next_hot_places_.size(); ++i) {
    std::memcpy(rows + next_hot_places_[i] * width, hot_->row(next_hot_slots_[i]),
                width * sizeof(float));
  }
  return {};
}

}  // namespace sumcast::sparse
