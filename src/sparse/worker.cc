#include "sparse/worker.h"

#include <fmt/format.h>

#include <cstring>
#include <utility>

#include "numeric/codec.h"
#include "sparse/rate.h"
#include "sparse/server.h"

namespace sumcast::sparse {
namespace {

constexpr std::chrono::nanoseconds kLeavePatience = std::chrono::seconds(2);
constexpr const char* kTeamKey = "sparse workers";

}  // namespace

Worker::Worker(Context& context, Seat* seat, const Options& options, Group group)
    : context_(&context),
      seat_(seat),
      options_(options),
      gradient_bytes_(numeric::payload_bytes(ElementType::kF32, options.wire, options.shape.width)),
      row_codec_(options.row_wire, options.shape.width),
      clock_(options.staleness),
      flush_plans_(options.servers),
      flush_bodies_(size_t{options.servers} * options.segments),
      steps_before_(options.restore ? options.restore->steps : 0),
      last_number_(options.restore ? options.restore->number : 0),
      manifest_(options.restore),
      group_(std::move(group)) {
  call_.wire = options.wire;
  context.world().bound_inflow(worker_window_bytes(options.workers));
}

Result<std::unique_ptr<Worker>> Worker::create(Context& context, const Options& options) {
  return create_in(context, nullptr, options);
}

Result<std::unique_ptr<Worker>> Worker::create(Seat& seat, const Options& options) {
  return create_in(seat.context(), &seat, options);
}

Result<std::unique_ptr<Worker>> Worker::create_in(Context& context, Seat* seat,
                                                  const Options& options) {
  if (auto agreed = agree_on(context, options); !agreed) return fail(agreed.error());
  if (context.rank() >= options.workers) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("sparse: rank {} is a server, not a worker", context.rank()));
  }
  std::vector<uint32_t> ranks(options.workers);
  for (uint32_t rank = 0; rank < options.workers; ++rank) ranks[rank] = rank;
  const auto open_team = [&]() -> Result<Group> {
    if (seat == nullptr) return context.new_group(ranks, kTeamKey);
    if (auto opened = seat->open_team(ranks, kTeamKey); !opened) return fail(opened.error());
    return seat->team();
  };
  auto team = open_team();
  if (!team) {
    context.world().abort("sparse: " + team.error().what);  // Servers wait for plans by now.
    return fail(team.error());
  }
  return std::unique_ptr<Worker>(new Worker(context, seat, options, std::move(*team)));
}

/// Nobody needs this worker's last operation any more when all have finished it.
Worker::~Worker() {
  if (failed_) return;
  if (auto landed = land_all(); !landed) {
    (void)fail_with(landed.error());
    return;
  }
  if (seat_ != nullptr) {
    Call call;
    call.timeout = kLeavePatience;
    const auto meet = [this, call] { return group_.barrier(call); };
    (void)perform_here(meet, meet);
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
  std::vector<Ack> acks(options_.servers);
  Plan leave;
  leave.task = Task::kLeave;
  leave.round = round_;
  for (uint32_t server = 0; server < options_.servers; ++server) {
    const uint32_t peer = options_.workers + server;
    sends.push_back({&leave, plan_bytes(options_.segments), peer, kPlanTag, 0});
    if (seat_ != nullptr) {
      receives.push_back({&acks[server], sizeof(Ack), peer, kAckTag, round_});
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

Part& Worker::part_of(Parts& parts, uint64_t key) const {
  const uint64_t mixed = table::mix_key(key);
  return parts[size_t{server_of(mixed, options_)} * options_.segments +
               segment_of(mixed, options_)];
}

/// Which keys are hot, and who holds the others. Servers look for cold keys that come twice; hot
/// ones are looked for here.
Result<void> Worker::sort_keys(std::span<const uint64_t> keys, Batch& batch) {
  batch.keys = keys.size();
  if (hot_) hot_->begin_batch();
  for (uint32_t place = 0; place < keys.size(); ++place) {
    const uint32_t slot = hot_ ? hot_->slot_of(keys[place]) : table::RowTable::kNone;
    if (slot != table::RowTable::kNone) {
      if (!hot_->add_to_batch(slot)) {
        return fail(ErrorCode::kInvalidArgument,
                    fmt::format("sparse: key {} comes twice in one batch", keys[place]));
      }
      batch.hot_slots.push_back(slot);
      batch.hot_places.push_back(place);
      continue;
    }
    Part& part = part_of(batch.parts, keys[place]);
    part.keys.push_back(keys[place]);
    part.places.push_back(place);
  }
  return {};
}

/// Where the current keys' rows lie.
void Worker::place_rows() {
  const size_t width = options_.shape.width;
  rows_.assign(current_.keys, nullptr);
  for (size_t part = 0; part < current_.parts.size(); ++part) {
    for (size_t i = 0; i < current_.parts[part].places.size(); ++i) {
      rows_[current_.parts[part].places[i]] = current_.rows[part].data() + i * width;
    }
  }
  for (size_t i = 0; i < current_.hot_places.size(); ++i) {
    rows_[current_.hot_places[i]] = current_.has_copies ? current_.hot_rows.data() + i * width
                                                        : hot_->row(current_.hot_slots[i]);
  }
}

/// Current and announced ones. All steps are visible.
void Worker::forget_keys() {
  for (FlightPtr& flight : flights_) retire(std::move(flight));
  flights_.clear();
  clock_.on_reset();
  rows_.clear();
  has_current_ = false;
  is_fresh_ = true;
}

Result<void> Worker::pull(std::span<const uint64_t> keys) {
  if (failed_) return fail(*failed_);
  if (auto caught_up = show_all(); !caught_up) return fail_with(caught_up.error());
  FlightPtr flight = new_flight(Task::kStep, kKept);
  if (auto sorted = sort_keys(keys, flight->pulled); !sorted) return sorted;
  forget_keys();
  write_bodies(*flight, nullptr);
  if (auto begun = launch(std::move(flight), false); !begun) return fail_with(begun.error());
  clock_.on_announce();
  if (auto done = take_turn(); !done) return fail_with(done.error());
  return {};
}

Result<void> Worker::set_rate(float rate) {
  if (failed_) return fail(*failed_);
  if (!is_rate(rate, options_.shape.optimizer.kind)) {
    return fail(
        ErrorCode::kInvalidArgument,
        fmt::format("sparse: rate {}; it must be above 0 (or 0: nothing moves; not for ftrl)",
                    rate));
  }
  options_.shape.optimizer.rate = rate;
  return {};
}

Result<void> Worker::announce(std::span<const uint64_t> keys) {
  if (failed_) return fail(*failed_);
  if (!clock_.may_announce()) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("sparse: {} batches are announced, and the job's staleness is {}",
                            clock_.ahead(), options_.staleness));
  }
  FlightPtr flight = new_flight(Task::kStep, kKept);
  if (auto sorted = sort_keys(keys, flight->pulled); !sorted) return sorted;
  write_bodies(*flight, nullptr);
  if (auto begun = launch(std::move(flight), true); !begun) return fail_with(begun.error());
  clock_.on_announce();
  return {};
}

Result<void> Worker::push_pull(const float* gradients, std::span<const uint64_t> next,
                               std::span<float> dense) {
  if (failed_) return fail(*failed_);
  if (gradients == nullptr && !rows_.empty()) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("sparse: no gradients for {} current keys", rows_.size()));
  }
  if (!dense.empty() && (options_.asynchronous || (clock_.ahead() != 0 && !take_dense_))) {
    return fail(ErrorCode::kInvalidArgument,
                options_.asynchronous
                    ? "sparse: nothing dense is summed in an asynchronous job"
                    : "sparse: dense sums come later than their step: name who takes them "
                      "(take_dense)");
  }
  FlightPtr flight = new_flight(Task::kStep, kKept);
  if (auto sorted = sort_keys(next, flight->pulled); !sorted) return sorted;
  flight->step = clock_.now();
  flight->rate = options_.shape.optimizer.rate;
  if (has_current_) std::swap(flight->pushed, current_);
  flight->has_pushed = has_current_;
  has_current_ = false;
  write_bodies(*flight, gradients);
  if (hot_) {
    std::vector<const float*> of_slots;
    for (const uint32_t place : flight->pushed.hot_places) {
      of_slots.push_back(gradients + size_t{place} * options_.shape.width);
    }
    hot_->gather(flight->pushed.hot_slots, of_slots, flight->hot);
    hot_->prepare(flight->hot_sums);
    flight->slots = hot_->slots();
  }
  flight->dense.assign(dense.begin(), dense.end());
  dense_out_ = dense;
  const bool waits = clock_.ahead() == 0;
  if (auto begun = launch(std::move(flight), !waits); !begun) return fail_with(begun.error());
  clock_.on_push();
  if (auto done = take_turn(); !done) return fail_with(done.error());
  dense_out_ = {};
  return {};
}

Result<void> Worker::catch_up() {
  if (failed_) return fail(*failed_);
  auto done = show_all();
  return done ? done : fail_with(done.error());
}

Result<void> Worker::peek(std::span<const uint64_t> keys, float* rows) {
  if (failed_) return fail(*failed_);
  if (auto caught_up = show_all(); !caught_up) return fail_with(caught_up.error());
  FlightPtr flight = new_flight(Task::kFetch);
  if (auto sorted = sort_keys(keys, flight->pulled); !sorted) return sorted;
  forget_keys();
  auto done = run(std::move(flight));
  if (!done) return fail_with(done.error());
  const size_t lanes = options_.shape.record_lanes(), width = options_.shape.width;
  const Batch& batch = (*done)->pulled;
  for (size_t part = 0; part < batch.parts.size(); ++part) {
    for (size_t i = 0; i < batch.parts[part].places.size(); ++i) {
      std::memcpy(rows + batch.parts[part].places[i] * width, batch.rows[part].data() + i * lanes,
                  width * sizeof(float));
    }
  }
  for (size_t i = 0; i < batch.hot_places.size(); ++i) {
    std::memcpy(rows + batch.hot_places[i] * width, hot_->row(batch.hot_slots[i]),
                width * sizeof(float));
  }
  retire(std::move(*done));
  return {};
}

}  // namespace sumcast::sparse
