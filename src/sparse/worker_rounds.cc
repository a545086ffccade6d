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

/// @param gradients  of the current keys; null: pulls only.
Result<void> Worker::begin_cold(Task task, const float* gradients) {
  for (size_t part = 0; part < parts_.size(); ++part) {
    write_body(part, gradients);
    SegmentPlan& rows = plans_[part / options_.segments].segments[part % options_.segments];
    rows.push = gradients == nullptr ? 0 : static_cast<uint32_t>(parts_[part].keys.size());
    rows.pull = static_cast<uint32_t>(next_parts_[part].keys.size());
  }
  return post_plans(task);
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

/// Records of next_parts_, into legs_[].reply.
Result<void> Worker::fetch() {
  if (auto begun = begin_cold(Task::kFetch, nullptr); !begun) return begun;
  return finish_round(Task::kFetch);
}

}  // namespace sumcast::sparse
