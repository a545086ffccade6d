// What a round sends and receives: bodies to servers in a window, and the hot rows' sum beside
// them.
#include <algorithm>
#include <cstring>

#include "numeric/codec.h"
#include "sparse/worker.h"

namespace sumcast::sparse {
namespace {

/// What all workers together may have on the way to a server: enough to keep its link busy over a
/// round trip, too little to overrun the queue of the port that leads there (incast).
constexpr size_t kServerWindowBytes = 256 << 10;

}  // namespace

/// Keys to pull, then gradients of what was pulled before.
void Worker::write_body(size_t part, const Round& round) {
  const Part& pushed = parts_[part];
  const Part& pulled = (*round.pull)[part];
  const size_t pushes = round.gradients == nullptr ? 0 : pushed.places.size();
  const size_t key_bytes = pulled.keys.size() * sizeof(uint64_t);
  std::vector<uint64_t>& body = legs_[part].body;
  body.resize(words_for(key_bytes + pushes * gradient_bytes_));
  if (key_bytes != 0) std::memcpy(body.data(), pulled.keys.data(), key_bytes);
  auto* at = reinterpret_cast<std::byte*>(body.data()) + key_bytes;
  for (size_t i = 0; i < pushes; ++i, at += gradient_bytes_) {
    const float* const gradient = round.gradients + size_t{pushed.places[i]} * options_.shape.width;
    if (options_.wire == WireFormat::kNative) {
      std::memcpy(at, gradient, gradient_bytes_);
    } else {
      numeric::encode(options_.wire, gradient, options_.shape.width, at);
    }
  }
}

/// Tells the servers what this round brings, and waits for their acks from now on.
Result<void> Worker::post_plans(const Round& round) {
  std::vector<Message> sends, receives;
  for (uint32_t server = 0; server < options_.servers; ++server) {
    Plan& plan = plans_[server];
    plan.task = round.task;
    plan.round = round_;
    plan.step = round.step;
    plan.is_done = round.is_done ? 1 : 0;
    const uint32_t peer = options_.workers + server;
    sends.push_back({&plan, plan_bytes(options_.segments), peer, kPlanTag, 0});
    receives.push_back({&acks_[server], sizeof(uint32_t), peer, kAckTag, round_});
  }
  auto sent = context_->world().exchange_async(sends, receives);
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
    most = std::max<size_t>(most, bytes);
    if (rows.pull == 0) continue;  // Rows that the caller looks at may lie in the leg.
    leg.reply.resize(rows.pull * lanes);
    receives.push_back(
        {leg.reply.data(), leg.reply.size() * sizeof(float), peer, reply_tag(segment), round_});
  }
  if (sends.empty()) return {};
  auto work = context_->world().exchange_async(sends, receives);
  if (!work) return fail(work.error());
  under_way_.push_back({std::move(*work), most});
  bytes_under_way_ += most;
  return {};
}

Result<void> Worker::begin_cold(const Round& round) {
  for (size_t part = 0; part < parts_.size(); ++part) {
    write_body(part, round);
    SegmentPlan& rows = plans_[part / options_.segments].segments[part % options_.segments];
    rows.push = round.gradients == nullptr ? 0 : static_cast<uint32_t>(parts_[part].keys.size());
    rows.pull = static_cast<uint32_t>((*round.pull)[part].keys.size());
  }
  return post_plans(round);
}

/// Keeps a window of segments on the way until all have come back and all servers have committed.
Result<void> Worker::finish_cold(Task task) {
  const size_t window = kServerWindowBytes / options_.workers;
  while (next_segment_ < options_.segments || !under_way_.empty()) {
    while (next_segment_ < options_.segments &&
           (under_way_.size() < 2 || bytes_under_way_ < window)) {
      if (auto posted = post_segment(task, next_segment_++); !posted) return posted;
    }
    if (under_way_.empty()) break;
    if (auto done = under_way_.front().work.wait(); !done) return done;
    bytes_under_way_ -= under_way_.front().bytes;
    under_way_.pop_front();
  }
  ++round_;
  return plans_sent_->wait();
}

Result<void> Worker::run_cold(const Round& round) {
  if (auto begun = begin_cold(round); !begun) return begun;
  return finish_cold(round.task);
}

/// Records of these keys, into legs_[].reply.
Result<void> Worker::fetch(const Parts& parts) {
  return run_cold({.task = Task::kFetch, .pull = &parts});
}

/// @param hot  null: no keys are hot.  @param dense, out  summed into `out`; empty: nothing is.
Result<Worker::Sums> Worker::begin_sums(const HotRows::Addends* hot,
                                        const std::vector<float>& dense, float* out) {
  Sums sums;
  if (!dense.empty()) {
    auto begun = group_.all_reduce_async(dense.data(), out, dense.size(), ElementType::kF32,
                                         Reduction::kSum, call_);
    if (!begun) return fail(begun.error());
    sums.dense = std::move(*begun);
  }
  if (hot == nullptr) return sums;
  hot_->discard_sums();
  RowSum table;
  table.slots = hot_->slots();
  table.width = static_cast<uint16_t>(options_.shape.width);
  table.touched = hot->touched;
  table.rows = hot->rows.data();
  table.sums = hot_->sums();
  table.present = hot_->present();
  auto begun = group_.sum_rows_async(table, call_);
  if (!begun) return fail(begun.error());
  sums.hot = std::move(*begun);
  return sums;
}

Result<void> Worker::finish_sums(Sums& sums) {
  for (std::optional<Work>* const work : {&sums.hot, &sums.dense}) {
    if (!*work) continue;
    if (auto done = (*work)->wait(); !done) return done;
  }
  return {};
}

/// Gradients out, rows of the next keys and sums in. Nothing has moved here when it ends.
Result<void> Worker::step(const float* gradients, std::span<float> dense) {
  static const float nothing = 0.0f;  // Of no keys.
  if (gradients == nullptr) gradients = &nothing;
  if (hot_) {
    std::vector<const float*> of_slots;
    for (const uint32_t place : hot_places_) {
      of_slots.push_back(gradients + size_t{place} * options_.shape.width);
    }
    hot_->gather(hot_slots_, of_slots);
  }
  auto sums = begin_sums(hot_ ? &hot_->addends() : nullptr, dense_, dense.data());
  if (!sums) return fail(sums.error());
  auto done = run_cold(
      {.task = Task::kStep, .pull = &next_parts_, .gradients = gradients, .step = steps_ + 1});
  if (!done) return done;
  return finish_sums(*sums);
}

/// A step that this worker has finished, for those that have not: the same addends, whose sums it
/// knows. All servers have committed the step, for they told this worker; it reads the rows that it
/// has.
Result<void> Worker::repeat_step(uint64_t step) {
  known_dense_.resize(last_dense_.size());
  auto sums = begin_sums(hot_ ? &hot_->last_addends() : nullptr, last_dense_, known_dense_.data());
  if (!sums) return fail(sums.error());
  auto done = run_cold({.task = Task::kStep, .pull = &parts_, .step = step, .is_done = true});
  if (!done) return done;
  if (auto summed = finish_sums(*sums); !summed) return summed;
  if (hot_) hot_->discard_sums();
  return {};
}

}  // namespace sumcast::sparse
