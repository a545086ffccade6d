// Which keys are hot at a worker: rows that move to it and back to the servers.
#include <algorithm>
#include <cstring>

#include "sparse/agreement.h"
#include "sparse/worker.h"

namespace sumcast::sparse {

Result<void> Worker::settle() {
  if (failed_) return fail(*failed_);
  if (!flushing_) return {};
  auto done = flushing_->wait();
  if (!done && seat_ != nullptr) return {};  // Sent once more before the next round.
  if (!done) return fail_with(done.error());
  flushing_.reset();
  return {};
}

Result<void> Worker::flush() {
  if (failed_) return fail(*failed_);
  if (!hot_) return {};
  // All sums have moved rows: none moves again before the round that carries this flush.
  if (auto shown = show_all(); !shown) return fail_with(shown.error());
  flush_due_ = true;
  auto sent = send_flush();
  if (!sent && seat_ == nullptr) return fail_with(sent.error());
  return {};
}

/// What is due goes out once in each context, before the next round with the servers. That round's
/// acks say that it has arrived: servers take a worker's messages in order.
Result<void> Worker::send_flush() {
  if (!flush_due_ || flush_sent_) return {};
  Parts shares(flush_bodies_.size());
  for (const uint32_t slot : hot_->begin_flush(context_->rank(), options_.workers)) {
    Part& part = part_of(shares, hot_->key(slot));
    part.keys.push_back(hot_->key(slot));
    part.places.push_back(slot);
  }
  flush_sent_ = true;
  return send_assignments(shares);
}

/// @param shares  keys, and slots as places.
Result<void> Worker::send_assignments(const Parts& shares) {
  if (flushing_) {
    if (auto done = flushing_->wait(); !done) return done;
    flushing_.reset();
  }
  const size_t lanes = options_.shape.record_lanes();
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
  auto work = context_->world().exchange_async(sends, {});
  if (!work) return fail(work.error());
  flushing_ = std::move(*work);
  return {};
}

/// The same keys in the same order on all workers?
Result<void> Worker::agree_on_keys(std::span<const uint64_t> keys) {
  uint64_t hash = keys.size();
  for (const uint64_t key : keys) hash = table::hash_with(hash, key);
  bool same = false;
  const auto compare = [this, hash](bool* out) -> Result<void> {
    const auto all = same_on_all(group_, hash);
    if (!all) return fail(all.error());
    *out = *all;
    return {};
  };
  auto done = perform([&] { return compare(&same); },
                      [compare] {
                        bool known = false;
                        return compare(&known);
                      });
  if (!done) return fail_with(done.error());
  if (same) return {};
  return fail(ErrorCode::kMismatch,
              "sparse: the workers named different hot keys; all must name the same in one order");
}

/// Can rows like these be summed here at all? A sum of nothing says so, on all workers alike.
Result<void> Worker::check_hot(size_t keys) {
  if (keys == 0) return {};
  const Action sum_nothing = [this]() -> Result<void> {
    RowSum table;
    table.slots = 1;
    table.width = static_cast<uint16_t>(options_.shape.width);
    std::vector<float> sums(options_.shape.width);
    uint64_t present = 0;
    table.sums = sums.data();
    table.present = &present;
    return group_.sum_rows(table, call_);
  };
  return perform(sum_nothing, sum_nothing);
}

/// Each worker fetches its share of the hot rows; then all get all. Slot s is number s / workers of
/// worker s mod workers.
Result<void> Worker::load_hot() {
  const size_t lanes = options_.shape.record_lanes();
  const uint32_t me = context_->rank(), workers = options_.workers;
  const size_t share = (hot_->slots() + workers - 1) / workers;
  FlightPtr fetching = new_flight(Task::kFetch);
  for (uint32_t slot = me; slot < hot_->slots(); slot += workers) {
    Part& part = part_of(fetching->pulled.parts, hot_->key(slot));
    part.keys.push_back(hot_->key(slot));
    part.places.push_back(slot / workers);
  }
  auto fetched = run(std::move(fetching));
  if (!fetched) return fail(fetched.error());
  std::vector<float> mine(share * lanes, 0.0f), all(share * workers * lanes);
  const Batch& batch = (*fetched)->pulled;
  for (size_t part = 0; part < batch.parts.size(); ++part) {
    for (size_t i = 0; i < batch.parts[part].places.size(); ++i) {
      std::memcpy(mine.data() + batch.parts[part].places[i] * lanes,
                  batch.rows[part].data() + i * lanes, lanes * sizeof(float));
    }
  }
  retire(std::move(*fetched));
  // As whole numbers: a history is none of floats.
  auto gathered = all_gather(mine.data(), all.data(), mine.size(), ElementType::kI32);
  if (!gathered) return gathered;
  for (uint32_t slot = 0; slot < hot_->slots(); ++slot) {
    const float* const from = all.data() + (slot % workers * share + slot / workers) * lanes;
    std::memcpy(hot_->record(slot), from, lanes * sizeof(float));
  }
  hot_->begin();
  return {};
}

Result<void> Worker::set_hot(std::span<const uint64_t> keys) {
  if (failed_) return fail(*failed_);
  if (options_.asynchronous && !keys.empty()) {
    return fail(ErrorCode::kInvalidArgument,
                "sparse: an asynchronous job has no hot keys: a sum needs all workers' gradients");
  }
  if (auto agreed = agree_on_keys(keys); !agreed) return agreed;
  table::TableShape shape = options_.shape;
  shape.rows_max = std::max<uint64_t>(keys.size(), 1);
  auto hot = HotRows::create(shape, keys);
  if (!hot) return fail(hot.error());
  if (auto possible = check_hot(keys.size()); !possible) return possible;
  if (auto caught_up = show_all(); !caught_up) return fail_with(caught_up.error());
  forget_keys();
  if (hot_) {
    // Servers have all rows before anybody asks for them.
    if (auto flushed = flush(); !flushed) return flushed;
    auto arrived = run(new_flight(Task::kFetch));
    if (!arrived) return fail_with(arrived.error());
    retire(std::move(*arrived));
  }
  hot_.reset();
  if (keys.empty()) return {};
  hot_.emplace(std::move(*hot));
  if (auto loaded = load_hot(); !loaded) return fail_with(loaded.error());
  return {};
}

}  // namespace sumcast::sparse
