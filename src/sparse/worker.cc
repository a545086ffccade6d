#include "sparse/worker.h"

#include <fmt/format.h>

#include <cstring>

#include "base/assert.h"
#include "numeric/codec.h"
#include "sparse/agreement.h"
#include "sparse/server.h"

namespace sumcast::sparse {
namespace {

/// What all workers together may have on the way to a server: enough to keep its link busy over a
/// round trip, too little to overrun the queue of the port that leads there (incast).
constexpr size_t kServerWindowBytes = 256 << 10;

constexpr std::chrono::nanoseconds kLeavePatience = std::chrono::seconds(2);

size_t words_for(size_t bytes) { return (bytes + sizeof(uint64_t) - 1) / sizeof(uint64_t); }

/// The same keys in the same order on all workers?
Result<void> agree_on_keys(Group& group, std::span<const uint64_t> keys) {
  uint64_t hash = keys.size();
  for (const uint64_t key : keys) hash = table::mix_key(hash ^ key) + 0x9E3779B97F4A7C15u;
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

/// Keys to pull, then gradients of what was pulled before.
void Worker::write_body(size_t part, const float* gradients) {
  const Part& pushed = parts_[part];
  const Part& pulled = next_parts_[part];
  const size_t pushes = gradients == nullptr ? 0 : pushed.places.size();
  const size_t key_bytes = pulled.keys.size() * sizeof(uint64_t);
  std::vector<uint64_t>& body = legs_[part].body;
  body.resize(words_for(key_bytes + pushes * gradient_bytes_));
  if (key_bytes != 0) std::memcpy(body.data(), pulled.keys.data(), key_bytes);
  auto* at = reinterpret_cast<std::byte*>(body.data()) + key_bytes;
  for (size_t i = 0; i < pushes; ++i, at += gradient_bytes_) {
    const float* const gradient = gradients + size_t{pushed.places[i]} * options_.shape.width;
    if (options_.wire == WireFormat::kNative) {
      std::memcpy(at, gradient, gradient_bytes_);
    } else {
      numeric::encode(options_.wire, gradient, options_.shape.width, at);
    }
  }
  counters_.cold_pushed += pushes;
  counters_.cold_pulled += pulled.keys.size();
}

/// Tells the servers what this round brings.
Result<void> Worker::post_plans(Task task) {
  std::vector<Message> sends;
  for (uint32_t server = 0; server < options_.servers; ++server) {
    plans_[server].task = task;
    plans_[server].round = round_;
    sends.push_back(
        {&plans_[server], plan_bytes(options_.segments), options_.workers + server, kPlanTag, 0});
  }
  auto sent = context_.world().exchange_async(sends, {});
  if (!sent) return fail(sent.error());
  plans_sent_ = std::move(*sent);
  next_segment_ = 0;
  ++counters_.rounds;
  return {};
}

/// Posts a segment's bodies for all servers, and what comes back for them.
Result<void> Worker::post_segment(Task task, uint32_t segment) {
  std::vector<Message> sends, receives;
  const size_t lanes =
      task == Task::kFetch ? options_.shape.record_lanes() : size_t{options_.shape.width};
  size_t most = 0;
  for (uint32_t server = 0; server < options_.servers; ++server) {
    Leg& leg = legs_[size_t{server} * options_.segments + segment];
    const SegmentPlan& rows = plans_[server].segments[segment];
    const uint32_t peer = options_.workers + server;
    const uint64_t bytes = rows.pull * sizeof(uint64_t) + rows.push * gradient_bytes_;
    if (bytes != 0) sends.push_back({leg.body.data(), bytes, peer, body_tag(segment), round_});
    leg.reply.resize(rows.pull * lanes);
    most = std::max<size_t>(most, bytes);
    if (rows.pull == 0) continue;
    receives.push_back(
        {leg.reply.data(), leg.reply.size() * sizeof(float), peer, reply_tag(segment), round_});
  }
  auto work = context_.world().exchange_async(sends, receives);
  if (!work) return fail(work.error());
  under_way_.push_back({std::move(*work), most});
  bytes_under_way_ += most;
  return {};
}

/// Keeps a window of segments on the way until all have come back.
Result<void> Worker::finish_round(Task task) {
  const size_t window = kServerWindowBytes / options_.workers;
  while (next_segment_ < options_.segments || !under_way_.empty()) {
    while (next_segment_ < options_.segments &&
           (under_way_.size() < 2 || bytes_under_way_ < window)) {
      if (auto posted = post_segment(task, next_segment_++); !posted) return posted;
    }
    if (auto done = under_way_.front().work.wait(); !done) return done;
    bytes_under_way_ -= under_way_.front().bytes;
    under_way_.pop_front();
  }
  ++round_;
  return plans_sent_->wait();
}

Result<void> Worker::begin_cold(const float* gradients) {
  for (size_t part = 0; part < parts_.size(); ++part) {
    write_body(part, gradients);
    SegmentPlan& rows = plans_[part / options_.segments].segments[part % options_.segments];
    rows.push = gradients == nullptr ? 0 : static_cast<uint32_t>(parts_[part].keys.size());
    rows.pull = static_cast<uint32_t>(next_parts_[part].keys.size());
  }
  return post_plans(Task::kStep);
}

Result<Work> Worker::begin_hot(const float* gradients) {
  std::vector<const float*> of_slots;
  for (const uint32_t place : hot_places_) {
    of_slots.push_back(gradients + size_t{place} * options_.shape.width);
  }
  hot_->gather(hot_slots_, of_slots);
  counters_.hot_pushed += hot_slots_.size();
  RowSum table;
  table.slots = hot_->slots();
  table.width = static_cast<uint16_t>(options_.shape.width);
  table.touched = hot_->touched();
  table.rows = hot_->gathered();
  table.sums = hot_->sums();
  table.present = hot_->present();
  return group_.sum_rows_async(table, call_);
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
  if (auto begun = begin_cold(nullptr); !begun) return fail_with(begun.error());
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
  if (auto begun = begin_cold(gradients); !begun) return begun;
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

/// Records of next_parts_, into legs_[].reply.
Result<void> Worker::fetch() {
  for (size_t part = 0; part < parts_.size(); ++part) {
    write_body(part, nullptr);
    plans_[part / options_.segments].segments[part % options_.segments] = {
        0, static_cast<uint32_t>(next_parts_[part].keys.size())};
  }
  if (auto posted = post_plans(Task::kFetch); !posted) return posted;
  return finish_round(Task::kFetch);
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
