#include "sparse/worker.h"

#include <fmt/format.h>

#include <cstring>

#include "base/assert.h"
#include "numeric/codec.h"
#include "sparse/agreement.h"
#include "sparse/server.h"

namespace sumcast::sparse {
namespace {

constexpr std::chrono::nanoseconds kLeavePatience = std::chrono::seconds(2);

/// The same keys in the same order on all workers?
Result<void> agree_on_keys(Group& group, std::span<const uint64_t> keys) {
  uint64_t hash = keys.size();
  for (const uint64_t key : keys) hash = table::hash_with(hash, key);
  const auto same = same_on_all(group, hash);
  if (!same) return fail(same.error());
  if (*same) return {};
  return fail(ErrorCode::kMismatch,
              "sparse: the workers named different hot keys; all must name the same in one order");
}

}  // namespace

Worker::Worker(Context& context, const Options& options, Group group)
    : context_(context),
      options_(options),
      gradient_bytes_(numeric::payload_bytes(ElementType::kF32, options.wire, options.shape.width)),
      plans_(options.servers),
      parts_(size_t{options.servers} * options.segments),
      next_parts_(parts_.size()),
      legs_(parts_.size()),
      flush_plans_(options.servers),
      flush_bodies_(parts_.size()),
      group_(std::move(group)) {
  call_.wire = options.wire;
}

Result<std::unique_ptr<Worker>> Worker::create(Context& context, const Options& options) {
  if (auto agreed = agree_on(context, options); !agreed) return fail(agreed.error());
  if (context.rank() >= options.workers) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("sparse: rank {} is a server, not a worker", context.rank()));
  }
  std::vector<uint32_t> ranks(options.workers);
  for (uint32_t rank = 0; rank < options.workers; ++rank) ranks[rank] = rank;
  auto group = context.new_group(ranks, "sparse workers");
  if (!group) {
    context.world().abort("sparse: " + group.error().what);  // Servers wait for plans by now.
    return fail(group.error());
  }
  return std::unique_ptr<Worker>(new Worker(context, options, std::move(*group)));
}

Worker::~Worker() {
  if (failed_) return;
  if (const auto ended = context_.world().aborted()) {
    group_.abort(ended->what);  // A fence: nothing of ours is touched after it.
    return;
  }
  if (flushing_) (void)flushing_->wait(kLeavePatience);
  std::vector<Message> sends;
  Plan leave;
  leave.task = Task::kLeave;
  leave.round = round_;
  for (uint32_t server = 0; server < options_.servers; ++server) {
    sends.push_back(
        {&leave, plan_bytes(options_.segments), options_.workers + server, kPlanTag, 0});
  }
  Call call;
  call.timeout = kLeavePatience;
  (void)context_.world().exchange(sends, {}, call);
}

/// Ends the job on all members. Fences: afterwards no memory of this worker is used by others.
Result<void> Worker::fail_with(const Error& error) {
  if (!failed_) {
    failed_ = error;
    group_.abort(error.what);
    context_.world().abort(error.what);
  }
  return fail(*failed_);
}

Worker::Part& Worker::part_of(std::vector<Part>& parts, uint64_t key) const {
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
    for (size_t i = 0; i < parts_[part].places.size(); ++i) {
      rows_[parts_[part].places[i]] = legs_[part].reply.data() + i * options_.shape.width;
    }
  }
  for (size_t i = 0; i < hot_places_.size(); ++i) rows_[hot_places_[i]] = hot_->row(hot_slots_[i]);
}

Result<void> Worker::pull(std::span<const uint64_t> keys) {
  if (failed_) return fail(*failed_);
  if (auto sorted = sort_keys(keys); !sorted) return sorted;
  if (auto begun = begin_cold(Task::kStep, nullptr); !begun) return fail_with(begun.error());
  if (auto done = finish_round(Task::kStep); !done) return fail_with(done.error());
  place_rows(keys);
  return {};
}

Result<void> Worker::push_pull(const float* gradients, std::span<const uint64_t> next) {
  if (failed_) return fail(*failed_);
  if (gradients == nullptr && !rows_.empty()) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("sparse: no gradients for {} current keys", rows_.size()));
  }
  if (auto sorted = sort_keys(next); !sorted) return sorted;
  if (auto done = step(gradients, next); !done) return fail_with(done.error());
  return {};
}

Result<void> Worker::step(const float* gradients, std::span<const uint64_t> next) {
  static const float nothing = 0.0f;  // Of no keys.
  if (gradients == nullptr) gradients = &nothing;
  std::optional<Work> hot;
  if (hot_) {
    auto begun = begin_hot(gradients);
    if (!begun) return fail(begun.error());
    hot = std::move(*begun);
  }
  if (auto begun = begin_cold(Task::kStep, gradients); !begun) return begun;
  if (auto done = finish_round(Task::kStep); !done) return done;
  if (hot) {
    if (auto done = hot->wait(); !done) return done;
    counters_.hot_moved += hot_->apply();
  }
  place_rows(next);
  return {};
}

Result<void> Worker::settle() {
  if (failed_) return fail(*failed_);
  if (!flushing_) return {};
  if (auto done = flushing_->wait(); !done) return fail_with(done.error());
  flushing_.reset();
  return {};
}

Result<void> Worker::flush() {
  if (auto done = settle(); !done) return done;
  if (!hot_) return {};
  const size_t lanes = options_.shape.record_lanes();
  std::vector<Part> shares(parts_.size());
  for (const uint32_t slot : hot_->take_moved(context_.rank(), options_.workers)) {
    Part& part = part_of(shares, hot_->key(slot));
    part.keys.push_back(hot_->key(slot));
    part.places.push_back(slot);
  }
  std::vector<Message> sends;
  for (uint32_t server = 0; server < options_.servers; ++server) {
    flush_plans_[server].task = Task::kAssign;
    flush_plans_[server].round = round_;
    sends.push_back({&flush_plans_[server], plan_bytes(options_.segments),
                     options_.workers + server, kPlanTag, 0});
  }
  for (size_t index = 0; index < shares.size(); ++index) {
    const Part& share = shares[index];
    const auto server = static_cast<uint32_t>(index / options_.segments);
    const auto segment = static_cast<uint32_t>(index % options_.segments);
    flush_plans_[server].segments[segment] = {static_cast<uint32_t>(share.keys.size()), 0};
    if (share.keys.empty()) continue;
    const size_t key_bytes = share.keys.size() * sizeof(uint64_t);
    const size_t bytes = key_bytes + share.keys.size() * lanes * sizeof(float);
    std::vector<uint64_t>& body = flush_bodies_[index];
    body.resize(words_for(bytes));
    std::memcpy(body.data(), share.keys.data(), key_bytes);
    auto* at = reinterpret_cast<std::byte*>(body.data()) + key_bytes;
    for (const uint32_t slot : share.places) {
      std::memcpy(at, hot_->record(slot), lanes * sizeof(float));
      at += lanes * sizeof(float);
    }
    counters_.flushed += share.keys.size();
    sends.push_back({body.data(), bytes, options_.workers + server, body_tag(segment), round_});
  }
  ++round_;
  auto work = context_.world().exchange_async(sends, {});
  if (!work) return fail_with(work.error());
  flushing_ = std::move(*work);
  return {};
}

void Worker::forget_keys() {
  for (Part& part : parts_) part.keys.clear(), part.places.clear();
  hot_slots_.clear();
  hot_places_.clear();
  rows_.clear();
}

Result<void> Worker::peek(std::span<const uint64_t> keys, float* rows) {
  if (failed_) return fail(*failed_);
  if (auto sorted = sort_keys(keys); !sorted) return sorted;
  forget_keys();
  if (auto done = fetch(); !done) return fail_with(done.error());
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

/// Each worker fetches its share of the hot rows; then all get all.
Result<void> Worker::load_hot() {
  const size_t lanes = options_.shape.record_lanes();
  const uint32_t me = context_.rank(), workers = options_.workers;
  for (Part& part : next_parts_) part.keys.clear(), part.places.clear();
  for (uint32_t slot = me; slot < hot_->slots(); slot += workers) {
    Part& part = part_of(next_parts_, hot_->key(slot));
    part.keys.push_back(hot_->key(slot));
    part.places.push_back(slot / workers);
  }
  if (auto done = fetch(); !done) return done;
  const size_t share = (hot_->slots() + workers - 1) / workers;
  std::vector<float> all(share * workers * lanes, 0.0f);
  float* const mine = all.data() + me * share * lanes;
  for (size_t part = 0; part < next_parts_.size(); ++part) {
    for (size_t i = 0; i < next_parts_[part].places.size(); ++i) {
      std::memcpy(mine + next_parts_[part].places[i] * lanes, legs_[part].reply.data() + i * lanes,
                  lanes * sizeof(float));
    }
  }
  if (auto done = group_.all_gather(mine, all.data(), share * lanes, ElementType::kF32); !done) {
    return done;
  }
  for (uint32_t slot = 0; slot < hot_->slots(); ++slot) {
    const float* const from = all.data() + (slot % workers * share + slot / workers) * lanes;
    std::memcpy(hot_->record(slot), from, lanes * sizeof(float));
  }
  return {};
}

/// Can rows like these be summed here at all? A sum of nothing says so, on all workers alike.
Result<void> Worker::check_hot(size_t keys) {
  if (keys == 0) return {};
  RowSum table;
  table.slots = 1;
  table.width = static_cast<uint16_t>(options_.shape.width);
  std::vector<float> sums(options_.shape.width);
  uint64_t present = 0;
  table.sums = sums.data();
  table.present = &present;
  return group_.sum_rows(table, call_);
}

Result<void> Worker::set_hot(std::span<const uint64_t> keys) {
  if (failed_) return fail(*failed_);
  if (auto agreed = agree_on_keys(group_, keys); !agreed) return agreed;
  table::TableShape shape = options_.shape;
  shape.rows_max = std::max<uint64_t>(keys.size(), 1);
  auto hot = HotRows::create(shape, keys);
  if (!hot) return fail(hot.error());
  if (auto possible = check_hot(keys.size()); !possible) return possible;
  if (auto flushed = flush(); !flushed) return flushed;
  if (auto done = settle(); !done) return done;
  hot_.reset();
  forget_keys();
  if (keys.empty()) return {};
  hot_.emplace(std::move(*hot));
  if (auto loaded = load_hot(); !loaded) return fail_with(loaded.error());
  return {};
}

}  // namespace sumcast::sparse
