// What a round sends and receives: bodies to servers in a window, and the hot rows' sum beside
// them.
#include <algorithm>
#include <cstring>

#include "numeric/codec.h"
#include "sparse/worker.h"

namespace sumcast::sparse {
namespace {

bool pushes(const Flight& flight) {
  return flight.task == Task::kStep && flight.step != 0 && (flight.flags & kDone) == 0;
}

/// Servers do not know, or not any more, what the gradients belong to.
bool is_named(const Flight& flight) {
  return flight.task == Task::kStep && !(flight.has_pushed && flight.pushed.is_listed);
}

}  // namespace

/// Keys that were pulled before, keys to pull, gradients. Whether the first are sent is decided
/// when the flight is posted.
void Worker::write_bodies(Flight& flight, const float* gradients) {
  for (size_t part = 0; part < flight.bodies.size(); ++part) {
    const Part& pushed = flight.pushed.parts[part];
    const Part& pulled = flight.pulled.parts[part];
    const size_t count = pushes(flight) ? pushed.keys.size() : 0;
    std::vector<uint64_t>& body = flight.bodies[part];
    body.resize(count + pulled.keys.size() + words_for(count * gradient_bytes_));
    if (count != 0) std::memcpy(body.data(), pushed.keys.data(), count * sizeof(uint64_t));
    if (!pulled.keys.empty()) {
      std::memcpy(body.data() + count, pulled.keys.data(), pulled.keys.size() * sizeof(uint64_t));
    }
    auto* at = reinterpret_cast<std::byte*>(body.data() + count + pulled.keys.size());
    for (size_t i = 0; i < count; ++i, at += gradient_bytes_) {
      const float* const gradient = gradients + size_t{pushed.places[i]} * options_.shape.width;
      if (options_.wire == WireFormat::kNative) {
        std::memcpy(at, gradient, gradient_bytes_);
      } else {
        numeric::encode(options_.wire, gradient, options_.shape.width, at);
      }
    }
  }
}

void Worker::fill_plans(Flight& flight) {
  for (size_t part = 0; part < flight.bodies.size(); ++part) {
    Plan& plan = flight.plans[part / options_.segments];
    plan.task = flight.task;
    plan.round = flight.round;
    plan.step = flight.step;
    plan.flags = flight.flags | (is_named(flight) ? kNamed : 0u);
    plan.marks = flight.marks;
    plan.rate = flight.rate;
    plan.segments[part % options_.segments] = {
        pushes(flight) ? static_cast<uint32_t>(flight.pushed.parts[part].keys.size()) : 0,
        static_cast<uint32_t>(flight.pulled.parts[part].keys.size())};
  }
}

/// What this round brings; from now on their acks are waited for.
Result<void> Worker::tell_servers(Flight& flight) {
  std::vector<Message> sends, receives, orders, receipts;
  for (uint32_t server = 0; server < options_.servers; ++server) {
    const uint32_t peer = options_.workers + server;
    sends.push_back({&flight.plans[server], plan_bytes(options_.segments), peer, kPlanTag, 0});
    receives.push_back({&flight.acks[server], sizeof(Ack), peer, kAckTag, flight.round});
    orders.push_back({&flight.order, sizeof(SaveOrder), peer, kOrderTag, flight.round});
    receipts.push_back(
        {&flight.receipts[server], sizeof(SaveReceipt), peer, kReceiptTag, flight.round});
  }
  auto told = context_->world().exchange_async(sends, receives);
  if (!told) return fail(told.error());
  flight.telling = std::move(*told);
  ++counters_.rounds;
  if (flight.task != Task::kSave || context_->rank() != 0) return {};
  auto ordered = context_->world().exchange_async(orders, receipts);
  if (!ordered) return fail(ordered.error());
  flight.ordering = std::move(*ordered);
  return {};
}

/// Posts the next segment's bodies for all servers, and what comes back for them.
Result<void> Worker::post_segment(Flight& flight) {
  std::vector<Message> sends, receives;
  const uint32_t segment = flight.next_segment++;
  const bool is_fetch = flight.task == Task::kFetch;
  const size_t lanes = is_fetch ? options_.shape.record_lanes() : size_t{options_.shape.width};
  const bool is_encoded = !is_fetch && !row_codec_.is_exact();
  size_t most = 0;
  for (uint32_t server = 0; server < options_.servers; ++server) {
    const size_t part = size_t{server} * options_.segments + segment;
    const SegmentPlan& rows = flight.plans[server].segments[segment];
    const bool sends_keys = (flight.plans[server].flags & kNamed) != 0;
    const uint32_t peer = options_.workers + server;
    const uint64_t bytes =
        ((sends_keys ? rows.push : 0) + rows.pull) * sizeof(uint64_t) + rows.push * gradient_bytes_;
    uint64_t* const body = flight.bodies[part].data() + (sends_keys ? 0 : rows.push);
    if (bytes != 0) sends.push_back({body, bytes, peer, body_tag(segment), flight.round});
    most = std::max<size_t>(most, bytes);
    std::vector<float>& reply = flight.pulled.rows[part];
    reply.resize(rows.pull * lanes);
    Message receive{reply.data(), reply.size() * sizeof(float), peer, reply_tag(segment),
                    flight.round};
    if (is_encoded) {
      std::vector<std::byte>& encoded = flight.pulled.encoded[part];
      encoded.resize(rows.pull * row_codec_.row_bytes());
      receive.data = encoded.data(), receive.bytes = encoded.size();
    }
    if (rows.pull != 0) receives.push_back(receive);
  }
  if (sends.empty()) return {};
  auto work = context_->world().exchange_async(sends, receives);
  if (!work) return fail(work.error());
  flight.segments.push_back({std::move(*work), segment, most});
  flight.segment_bytes += most;
  return {};
}

/// Of all servers, whose answers are here.
void Worker::decode_rows(Flight& flight, uint32_t segment) const {
  if (flight.task == Task::kFetch || row_codec_.is_exact()) return;
  for (uint32_t server = 0; server < options_.servers; ++server) {
    const size_t part = size_t{server} * options_.segments + segment;
    row_codec_.decode(flight.pulled.encoded[part].data(),
                      flight.plans[server].segments[segment].pull, flight.pulled.rows[part].data());
  }
}

/// Sums among the workers, that travel beside the round with the servers.
Result<void> Worker::begin_sums(Flight& flight) {
  if (!flight.dense.empty()) {
    flight.dense_sum.resize(flight.dense.size());
    auto begun =
        group_.all_reduce_async(flight.dense.data(), flight.dense_sum.data(), flight.dense.size(),
                                ElementType::kF32, Reduction::kSum, call_);
    if (!begun) return fail(begun.error());
    flight.summing_dense = std::move(*begun);
  }
  if (flight.slots == 0) return {};
  std::ranges::fill(flight.hot_sums.present, 0);  // Of an attempt before.
  RowSum table;
  table.slots = flight.slots;
  table.width = static_cast<uint16_t>(options_.shape.width);
  table.touched = flight.hot.touched;
  table.rows = flight.hot.rows.data();
  table.sums = flight.hot_sums.rows.data();
  table.present = flight.hot_sums.present.data();
  auto begun = group_.sum_rows_async(table, call_);
  if (!begun) return fail(begun.error());
  flight.summing_hot = std::move(*begun);
  return {};
}

/// @param at_once  nobody will wait for it soon: all of it goes out now, as fast as the servers let
/// it.
Result<void> Worker::post(Flight& flight, bool at_once) {
  if (flush_due_ && !flush_carried_) flight.carries_flush = flush_carried_ = true;
  if (flight.carries_flush) {
    if (auto sent = send_flush(); !sent) return sent;
  }
  flight.round = round_++;
  // What was launched in an earlier context may be done elsewhere already, where nobody would see
  // its mark.
  const bool may_return = !options_.asynchronous && seat_ != nullptr &&
                          flight.number >= entered_at_ && seat_->is_return_ready();
  flight.marks = may_return ? kReturnMark : 0;
  fill_plans(flight);
  if ((flight.flags & kKept) != 0) flight.pulled.is_listed = true;
  if (auto begun = begin_sums(flight); !begun) return begun;
  if (auto told = tell_servers(flight); !told) return told;
  while (at_once && flight.next_segment < options_.segments) {
    if (auto posted = post_segment(flight); !posted) return posted;
  }
  return {};
}

/// Keeps a window of segments on the way, so that no worker runs ahead of the others and rows come
/// back while gradients go out, until all have come back, all servers have committed, and the sums
/// are in.
Result<void> Worker::wait_for(Flight& flight) {
  const size_t window = worker_window_bytes(options_.workers);
  while (flight.next_segment < options_.segments || !flight.segments.empty()) {
    while (flight.next_segment < options_.segments &&
           (flight.segments.size() < 2 || flight.segment_bytes < window)) {
      if (auto posted = post_segment(flight); !posted) return posted;
    }
    if (flight.segments.empty()) break;
    if (auto done = flight.segments.front().work.wait(); !done) return done;
    decode_rows(flight, flight.segments.front().segment);
    flight.segment_bytes -= flight.segments.front().bytes;
    flight.segments.pop_front();
  }
  for (std::optional<Work>* const work :
       {&flight.telling, &flight.ordering, &flight.summing_hot, &flight.summing_dense}) {
    if (!*work) continue;
    if (auto done = (*work)->wait(); !done) return done;
  }
  return {};
}

/// A round that this worker is done with, for those that are not: the same addends, whose sums it
/// knows, and no rows. All servers have committed it, for they told this worker.
Result<void> Worker::echo(const Flight& flight) {
  // Whatever happens its memory stays until the context is fenced.
  echoes_.push_back(new_flight(flight.task, flight.task == Task::kStep ? kDone : 0u));
  Flight& again = *echoes_.back();
  again.step = flight.step;
  again.rate = flight.rate;
  again.order = flight.order;
  again.slots = flight.slots;
  again.hot = flight.hot;
  again.hot_sums = flight.hot_sums;
  again.dense = flight.dense;
  if (flight.carries_flush) {
    if (auto sent = send_assignments(Parts(flight.bodies.size())); !sent) return sent;
  }
  write_bodies(again, nullptr);
  again.round = round_++;
  fill_plans(again);
  if (auto begun = begin_sums(again); !begun) return begun;
  if (auto told = tell_servers(again); !told) return told;
  return wait_for(again);
}

}  // namespace sumcast::sparse
