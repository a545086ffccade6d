// Receiving: results are checked, accepted by their window, and their lanes stored where they
// belong; asks make a window repeat itself.
#include <algorithm>
#include <cstring>

#include "base/assert.h"
#include "collective/engine.h"
#include "collective/engine_state.h"
#include "numeric/codec.h"
#include "numeric/fixed.h"
#include "numeric/rows.h"
#include "wire/compact.h"

namespace sumcast::collective {

size_t Engine::receive(uint64_t token, Instant now) {
  net::UdpSocket* socket = direct_socket_.get();
  Path* path = nullptr;
  bool listening = false;
  if (token >= 2) {
    path = socket_paths_[token - 2].first;
    const uint16_t flow = socket_paths_[token - 2].second;
    listening = flow == kListening;
    socket = !listening        ? path->sockets[flow].get()
             : path != nullptr ? path->listening.get()
                               : members_listening_.get();
    if (socket == nullptr) return 0;  // It has just been given up.
  }
  size_t handled = 0;
  for (;;) {
    const size_t count = socket->receive(buffers_, batches_);
    for (size_t i = 0; i < count; ++i) {
      const Path* const heard = listening ? heard_from(path, batches_[i].from) : nullptr;
      if (listening && heard == nullptr) {
        buffers_.release(batches_[i].buffer);
        continue;
      }
      for (const auto datagram : net::segments(batches_[i])) {
        ++handled;
        if (faults_.active()) {
          const uint32_t origin = heard != nullptr ? heard->index + 1 : 0;
          faults_.admit(datagram, origin, now,
                        [&](std::span<const std::byte> survivor, uint32_t from) {
                          on_datagram(survivor, from == 0 ? nullptr : paths_[from - 1].get(), now);
                        });
        } else {
          on_datagram(datagram, heard, now);
        }
      }
      buffers_.release(batches_[i].buffer);
    }
    if (count < batches_.size()) return handled;
  }
}

void Engine::on_datagram(std::span<const std::byte> datagram, const Path* heard, Instant now) {
  wire::Header header;
  if (wire::parse(datagram, header) != wire::ParseError::kNone) {
    ++counters_.malformed;
    return;
  }
  Path* path = path_of_sender(header.sender);
  if (header.incarnation != incarnation_.value ||
      header.epoch != static_cast<uint8_t>(epoch_.value)) {
    ++counters_.stale;
    return;
  }
  if (path == nullptr || path->local || !path->verifier->open(datagram)) {
    ++counters_.unauthentic;
    return;
  }
  if (heard != nullptr && heard != path) {  // Sent by one shard in another's name.
    ++counters_.unauthentic;
    return;
  }
  if (serial_before(path->heard, header.counter)) path->heard = header.counter;
  if (heard != nullptr) note_heard(*path, now);
  const size_t tag = signer_->tag_bytes();
  const auto payload =
      datagram.subspan(wire::kHeaderBytes, datagram.size() - wire::kHeaderBytes - tag);
  switch (header.kind) {
    case wire::Kind::kResult:
      return on_result(*path, header, payload, heard != nullptr, now);
    case wire::Kind::kAsk:
      return on_ask(*path, header, payload, now);
    case wire::Kind::kChallenge:
      return on_challenge(*path, header, payload);
    case wire::Kind::kHelloAck:
      return on_hello_ack(*path, header);
    case wire::Kind::kTuned:
      return on_tuned(*path, header, datagram.size(), now);
    default:
      return;  // What only workers send.
  }
}

void Engine::on_local_result(const wire::Header& header, std::span<const std::byte> lanes,
                             Instant now) {
  Path* path = routes_[static_cast<size_t>(Route::kDirect)][rank_.value];
  on_result(*path, header, lanes, false, now);
}

/// Has no member that wants no lanes (P19): the others are sent their own.
static bool goes_to_all(wire::OperationKind kind) {
  using wire::OperationKind;
  return kind == OperationKind::kAllReduce || kind == OperationKind::kBlockCodes ||
         kind == OperationKind::kRowSum || kind == OperationKind::kBarrier;
}

/// Are these lanes what the chunk's place expects?
bool Engine::is_storable(const Operation& operation, const Staged& arrived) {
  const auto& [place, lanes, compact] = arrived;
  const auto& what = operation.descriptor;
  if (place.lanes == 0) return true;
  if (!place.receives) return lanes.empty();
  if (wire::sums_rows(what.kind)) {
    // Empty: nobody touched this cell.
    return lanes.empty() || (!compact && numeric::is_rows(what.format, lanes) &&
                             numeric::shape_of(lanes) ==
                                 numeric::RowShape{static_cast<uint16_t>(place.lanes), what.width});
  }
  const size_t bytes = numeric::payload_bytes(what.type, what.format, place.lanes);
  return compact ? wire::expanded_bytes(lanes) == bytes : lanes.size() == bytes;
}

void Engine::on_result(Path& path, const wire::Header& header, std::span<const std::byte> lanes,
                       bool heard, Instant now) {
  Group* group = header.slot < group_of_slot_.size() ? group_of_slot_[header.slot] : nullptr;
  if (group == nullptr) {
    ++counters_.stale;
    return;
  }
  Window* window = nullptr;
  for (auto& candidate : group->windows[static_cast<size_t>(path.route)]) {
    if (&candidate->path == &path) window = candidate.get();
  }
  if (window == nullptr) {
    ++counters_.stale;
    return;
  }
  const auto slot = static_cast<uint16_t>(header.slot - group->plan.slot_base.value);
  const auto expected = window->core.expectation(slot);
  const bool current = expected.in_flight && expected.phase == header.phase;
  // A plain pointer: counting references here would stall each datagram on the stores of the last.
  Operation* const operation = current ? window->operation(expected.ticket).get() : nullptr;
  if (current && (operation->digest != header.digest || header.chunk != expected.chunk)) {
    ++counters_.stale;
    return;
  }
  // Made in place, for the same reason: a copy of what was just written in smaller parts waits
  // until all earlier stores have left the core, and those go to lines that no cache holds.
  const Staged arrived{
      current ? operation->geometry->place(window->shard, expected.chunk) : ChunkPlace{}, lanes,
      (header.flags & wire::kFlagCompact) != 0};
  if (current && !is_storable(*operation, arrived)) {
    ++counters_.malformed;  // P4: a result of another shape is never stored.
    return;
  }
  core::Delivery delivery;
  switch (window->core.on_result(slot, header.phase, header.digest, header.total_or_next, now,
                                 delivery)) {
    case core::ResultVerdict::kAccepted:
      break;
    case core::ResultVerdict::kDuplicate:
      ++counters_.duplicates;
      return;
    default:
      ++counters_.stale;
      return;
  }
  ++counters_.results;
  window->heard_at = now;
  --path.in_flight;
  if (!path.local) {
    arriving_.on_batch(now, wire::kHeaderBytes + lanes.size() + signer_->tag_bytes());
    if (!delivery.repeated) path.rtt.on_sample(delivery.since_sent);
    path.congestion.on_result(now, path.rtt.least());
    if (path.hears && goes_to_all(operation->descriptor.kind)) {
      note_audible_result(path, heard, delivery.probed);
    }
  }
  if (arrived.place.receives && arrived.place.lanes != 0) store_lanes(*operation, arrived);
  if (delivery.operation_complete) {
    const OperationPtr ended = std::move(window->operation(delivery.ticket));
    if (--ended->windows_left == 0) finish(*group, ended, std::nullopt, now);
  }
}

void Engine::store_lanes(Operation& operation, const Staged& arrived) {
  const ChunkPlace& place = arrived.place;
  std::span<const std::byte> lanes = arrived.lanes;
  const auto& what = operation.descriptor;
  if (wire::sums_rows(what.kind)) {
    if (lanes.empty()) return;
    auto* cell = reinterpret_cast<float*>(operation.output) + place.output_offset * what.width;
    numeric::decode_rows(what.format, lanes, cell, operation.rows_touched, place.output_offset);
    return;
  }
  const size_t width = element_bytes(what.type);
  std::byte* at = operation.output + place.output_offset * width;
  std::array<std::byte, kDatagramBytesMax> whole;
  if (arrived.compact) {
    if (what.format == WireFormat::kNative) return wire::expand(lanes, at);
    lanes = {whole.data(), numeric::payload_bytes(what.type, what.format, place.lanes)};
    wire::expand(arrived.lanes, whole.data());
  }
  switch (what.format) {
    case WireFormat::kNative:
      std::memcpy(at, lanes.data(), lanes.size());
      break;
    case WireFormat::kFixed: {
      const auto* codes =
          reinterpret_cast<const numeric::BlockCode*>(operation.block_codes->data());
      numeric::decode_fixed(lanes.data(), place.lanes, place.input_offset,
                            codes + place.input_offset / numeric::kBlockLanes, operation.group_size,
                            what.reduction == Reduction::kAvg, reinterpret_cast<float*>(at));
      break;
    }
    default:
      numeric::decode(what.format, lanes.data(), place.lanes, reinterpret_cast<float*>(at));
  }
}

/// Operations may end out of order; `completed` counts the prefix that has ended.
void Engine::finish(Group& group, const OperationPtr& operation, std::optional<Error> error,
                    Instant now) {
  const auto& what = operation->descriptor;
  if (!error && what.kind == wire::OperationKind::kAllGather && what.count != 0) {
    // This rank's own part does not travel. It is stored only now: a mismatch touches nothing (P4).
    const size_t bytes = what.count * element_bytes(what.type);
    std::byte* mine = operation->output + group.my_member * bytes;
    if (mine != operation->input) std::memmove(mine, operation->input, bytes);
  }
  operation->error = std::move(error);
  operation->done.store(true, std::memory_order_release);
  while (!group.unfinished.empty() &&
         group.unfinished.front()->done.load(std::memory_order_relaxed)) {
    group.completed = group.unfinished.front()->descriptor.sequence;
    group.unfinished.pop_front();
  }
  group.last_change = now;
  start_operations(group);
  if (callers_waiting_ > 1 || background_driving_) changed_.notify_all();
}

/// P6. Notes about what has changed meanwhile are overtaken by events, and change nothing.
void Engine::on_ask(Path& path, const wire::Header& header, std::span<const std::byte> notes,
                    Instant now) {
  const bool has_left = header.chunk == static_cast<uint32_t>(Asking::kHasLeft);
  for (size_t at = 0; at + wire::kNoteBytes <= notes.size(); at += wire::kNoteBytes) {
    const wire::Note note = wire::read_note(notes.data() + at);
    Group* group = note.slot < group_of_slot_.size() ? group_of_slot_[note.slot] : nullptr;
    if (group == nullptr) continue;
    ++(has_left ? counters_.told : counters_.asks);
    for (auto& window : group->windows[static_cast<size_t>(path.route)]) {
      if (&window->path != &path) continue;
      const auto slot = static_cast<uint16_t>(note.slot - group->plan.slot_base.value);
      if (has_left) {
        const auto expected = window->core.expectation(slot);
        if (expected.in_flight && expected.phase == note.phase_or_number &&
            window->left.size() < window->core.config().slots) {
          window->left.push_back(core::Want{slot, note.phase_or_number, note.digest});
        }
      } else if (is_on_its_way(*window, slot, header.total_or_next, now)) {
        ++counters_.asks_crossed;
      } else {
        window->core.on_ask(slot, note.phase_or_number);
      }
    }
  }
}

/// Did the slot's contribution leave after all that the shard had heard when it asked, or so
/// shortly ago that it cannot have been there?
bool Engine::is_on_its_way(const Window& window, uint16_t slot, uint32_t shard_heard, Instant now) {
  if (window.core.expectation(slot).in_flight && serial_before(shard_heard, window.sent[slot])) {
    return true;
  }
  const core::RttEstimator& rtt = window.path.rtt;
  return rtt.has_sample() && window.core.crosses(slot, now, rtt.surely());
}

}  // namespace sumcast::collective
