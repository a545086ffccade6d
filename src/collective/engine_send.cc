// Sending: operations enter the windows in call order, windows say what may go, and runs of equal
// datagrams are gathered from the tensor.
#include <algorithm>
#include <cstring>

#include "base/assert.h"
#include "collective/engine.h"
#include "collective/engine_state.h"
#include "numeric/codec.h"
#include "numeric/fixed.h"
#include "numeric/rows.h"
#include "runtime/clock.h"
#include "wire/compact.h"

namespace sumcast::collective {
namespace {

constexpr size_t kCellBytes = wire::kTagBytes + wire::kHeaderBytes;  // Tag of one, header of next.
constexpr Duration kBlockedRetry = std::chrono::microseconds(300);
constexpr size_t kLineBytes = 64;
constexpr size_t kPrefetchBytesMin = 8192;

/// Tags are computed over a run, and the kernel copies it, out of a tensor that is in no cache; the
/// copy is one instruction per part, which waits for each line. Asking for all lines first takes
/// less than what it then saves.
void prefetch(std::span<const std::byte> lanes) {
  for (size_t at = 0; at < lanes.size(); at += kLineBytes) {
    __builtin_prefetch(lanes.data() + at, 0, 2);
  }
}

}  // namespace

/// Operations enter in call order, on every rank alike: a window gives slots to operations in the
/// order in which it hears of them (core/send_window.h).
void Engine::start_operations(Group& group) {
  while (group.waiting > 0) {
    const size_t index = group.unfinished.size() - group.waiting;
    const OperationPtr& operation = group.unfinished[index];
    auto& windows = group.windows[static_cast<size_t>(operation->route)];
    // The lanes of `fixed` wait for their exponents, which are the operation just before.
    if (operation->block_codes && operation->descriptor.kind != wire::OperationKind::kBlockCodes &&
        index > 0) {
      return;
    }
    for (const auto& window : windows) {
      if (window->core.full()) return;
    }
    const wire::OperationDescriptor& what = operation->descriptor;
    if (what.sequence - group.completed > Group::kUnderWayMax) return;
    const size_t lanes =
        wire::sums_rows(what.kind)
            ? numeric::slots_per_cell(what.format, what.width, group.lanes_bytes_max)
            : numeric::lanes_per_chunk(what.type, what.format, group.lanes_bytes_max);
    operation->geometry.emplace(what, static_cast<uint32_t>(group.plan.ranks.size()),
                                group.my_member, static_cast<uint32_t>(lanes),
                                static_cast<uint32_t>(windows.size()),
                                operation->route == Route::kDirect);
    for (uint32_t shard = 0; shard < windows.size(); ++shard) {
      const uint32_t total = operation->geometry->total(shard);
      if (total == 0) continue;
      ++operation->windows_left;
      Window& window = *windows[shard];
      const core::Ticket ticket = window.core.submit(operation->digest, total, window.next_slot);
      // Behind the chunks before it (P7): on a long path short operations travel side by side.
      window.next_slot = (window.next_slot + total) % window.core.config().slots;
      window.operation(ticket) = operation;
    }
    --group.waiting;
  }
}

/// Sends until nothing more may go. Local results can make room for further sends.
void Engine::pump(Instant now) {
  for (;;) {
    bool progress = false;
    for (auto& path : paths_) progress |= send_path(*path, now);
    progress |= host_->flush(now);
    if (!progress) return;
  }
}

bool Engine::send_path(Path& path, Instant now) {
  if (now < path.retry_at && path.retry_at != Instant::never()) return false;
  path.retry_at = Instant::never();
  bool sent = false;
  std::array<core::Outgoing, net::kSegmentsMax> memory;
  for (auto& group : groups_) {
    if (!group || group->unfinished.empty()) continue;
    auto& windows = group->windows[static_cast<size_t>(path.route)];
    for (auto& window : windows) {
      if (&window->path != &path) continue;
      while (window->core.wants_to_send()) {
        const uint32_t size = path.congestion.size();
        const uint32_t room = size > path.in_flight ? size - path.in_flight : 0;
        if (room == 0 && window->core.ready() > 0) path.congestion.on_limited();
        BoundedList<core::Outgoing> items(memory);
        const uint32_t before = window->core.in_flight();
        if (path.in_flight == 0 && is_idle()) arriving_.on_pause();
        window->core.fill(now, path.local ? UINT32_MAX : room, items);
        path.in_flight += window->core.in_flight() - before;
        if (items.empty()) break;
        sent = true;
        if (!path.local) count_repeats(path, items.view());
        if (!send_items(path, *window, items.view(), now)) return sent;
      }
    }
  }
  return sent;
}

/// What is sent again was lost on the way, unless it never left.
void Engine::count_repeats(Path& path, std::span<const core::Outgoing> items) {
  auto repeats = static_cast<uint32_t>(std::ranges::count_if(items, &core::Outgoing::repeat));
  const uint32_t excused = std::min(repeats, path.refused);
  path.refused -= excused;
  path.congestion.on_contributions_lost(repeats - excused);
}

/// @return false if the socket is full: the rest waits for retry_at.
bool Engine::send_items(Path& path, Window& window, std::span<core::Outgoing> items, Instant now) {
  if (path.local) {
    for (const core::Outgoing& item : items) send_local(window, item, now);
    return true;
  }
  send_remote(path, window, items, now);
  return path.retry_at == Instant::never();
}

wire::Header Engine::contribution_header(const Window& window, const core::Outgoing& item,
                                         const Operation& operation, const Staged& staged) const {
  wire::Header header;
  header.kind = wire::Kind::kContribution;
  header.type = operation.descriptor.type;
  header.reduction = operation.descriptor.reduction;
  header.format = operation.descriptor.format;
  header.flags = staged.place.receives ? 0 : wire::kFlagQuiet;
  if (wire::sums_rows(operation.descriptor.kind)) header.flags |= wire::kFlagRows;
  if (staged.compact) header.flags |= wire::kFlagCompact;
  header.epoch = static_cast<uint8_t>(epoch_.value);
  header.sender = rank_.value;
  header.slot = static_cast<uint16_t>(window.group.plan.slot_base.value + item.slot);
  header.incarnation = incarnation_.value;
  header.phase = item.phase;
  header.digest = operation.digest;
  header.chunk = item.chunk;
  header.total_or_next = operation.geometry->total(window.shard);
  return header;
}

/// Those rows of a cell that this rank touched, encoded into `staging`; nothing if there are none.
std::span<const std::byte> Engine::rows_of(const Operation& operation, const ChunkPlace& place,
                                           std::byte* staging) {
  const auto& what = operation.descriptor;
  const auto first = static_cast<uint32_t>(place.input_offset);
  const auto& all = operation.row_slots;
  const auto begin = std::ranges::lower_bound(all, first);
  const auto end = std::lower_bound(begin, all.end(), first + place.lanes);
  if (begin == end) return {};
  const numeric::RowShape shape{static_cast<uint16_t>(place.lanes), what.width};
  const auto* values = reinterpret_cast<const float*>(operation.input) +
                       static_cast<size_t>(begin - all.begin()) * what.width;
  return {staging, numeric::encode_rows(what.format, shape, {begin, end}, first, values, staging)};
}

/// The chunk's lanes as they travel: in the tensor itself, or encoded into `staging`.
std::span<const std::byte> Engine::lanes_of(const Operation& operation, const ChunkPlace& place,
                                            std::byte* staging) {
  if (!place.contributes || place.lanes == 0) return {};
  const auto& what = operation.descriptor;
  if (wire::sums_rows(what.kind)) return rows_of(operation, place, staging);
  const size_t width = element_bytes(what.type);
  const std::byte* at = operation.input + place.input_offset * width;
  if (what.format == WireFormat::kNative) return {at, place.lanes * width};
  const auto* values = reinterpret_cast<const float*>(at);
  if (what.format == WireFormat::kFixed) {
    const auto* codes = reinterpret_cast<const numeric::BlockCode*>(operation.block_codes->data());
    numeric::encode_fixed(values, place.lanes, place.input_offset,
                          codes + place.input_offset / numeric::kBlockLanes, operation.group_size,
                          staging);
  } else {
    numeric::encode(what.format, values, place.lanes, staging);
  }
  return {staging, numeric::payload_bytes(what.type, what.format, place.lanes)};
}

void Engine::send_local(Window& window, const core::Outgoing& item, Instant now) {
  Operation& operation = *window.operation(item.ticket);
  const ChunkPlace place = operation.geometry->place(window.shard, item.chunk);
  const auto lanes = lanes_of(operation, place, staging_.data());
  const bool copy = operation.descriptor.format != WireFormat::kNative ||
                    wire::sums_rows(operation.descriptor.kind);
  const Staged staged{place, lanes};
  host_->on_local_contribution(contribution_header(window, item, operation, staged), lanes, copy,
                               now);
}

bool Engine::is_idle() const {
  return std::ranges::all_of(paths_, [](const auto& path) { return path->in_flight == 0; });
}

/// The zeros that a chunk's lanes are to travel without (P25): if what they take on the link is
/// more than it costs to look for zeros, to expand, and to send shorter runs. On links so fast that
/// the processors decide it is not. Of some operations, fewer and fewer, the zeros travel all the
/// same: a rate that was taken while they did not may be that of the processors.
wire::ZeroMap Engine::zeros_to_spare(const Operation& operation,
                                     std::span<const std::byte> lanes) const {
  constexpr double kCostNs = 7500;
  constexpr uint32_t kSequenceMin = 8;
  const double ns_per_byte = arriving_.ns_per_byte();
  const auto pays = [&](size_t saved) {
    return options_.compact_always || ns_per_byte * static_cast<double>(saved) > kCostNs;
  };
  const uint32_t sequence = operation.descriptor.sequence;
  const bool measures =
      !options_.compact_always && sequence >= kSequenceMin && std::has_single_bit(sequence);
  wire::ZeroMap zeros;
  if (measures || !pays(lanes.size())) return zeros;  // Nobody has looked at dense lanes yet.
  zeros = wire::find_zeros(lanes);
  if (!pays(lanes.size() - zeros.bytes)) zeros.bytes = 0;
  return zeros;
}

/// Places and lanes of a run's datagrams: of as many items as are equally long but for a shorter
/// last one.
/// @return how many; 0 if the first is to be sent without its zeros.
size_t Engine::stage_run(Window& window, std::span<const core::Outgoing> items, StagedRun& run) {
  const uint32_t frame = static_cast<uint32_t>(wire::kHeaderBytes + signer_->tag_bytes());
  uint32_t first_bytes = 0, last_bytes = 0;
  for (size_t count = 0; count < items.size(); ++count) {
    Operation& operation = *window.operation(items[count].ticket);
    if (wire::sums_rows(operation.descriptor.kind)) {
      return count == 0 ? stage_rows(window, items, run) : count;
    }
    const ChunkPlace place = operation.geometry->place(window.shard, items[count].chunk);
    run[count] = {place, lanes_of(operation, place, staging_.data() + count * kDatagramBytesMax)};
    const std::span<const std::byte> lanes = run[count].lanes;
    if (items.size() * lanes.size() >= kPrefetchBytesMin) prefetch(lanes);
    if (zeros_to_spare(operation, lanes).bytes != 0) return count;
    const auto bytes = static_cast<uint32_t>(frame + run[count].lanes.size());
    if (count == 0) first_bytes = last_bytes = bytes;
    if (bytes > first_bytes || last_bytes < first_bytes ||
        count == net::segments_max(first_bytes)) {
      return count;  // Longer, or behind a shorter one: starts a run of its own.
    }
    last_bytes = bytes;
  }
  return items.size();
}

/// The same for rows, padded to the longest of the run (P15).
size_t Engine::stage_rows(Window& window, std::span<const core::Outgoing> items, StagedRun& run) {
  const uint32_t frame = static_cast<uint32_t>(wire::kHeaderBytes + signer_->tag_bytes());
  PaddedRun padded;
  for (size_t i = 0; i < items.size(); ++i) {
    Operation& operation = *window.operation(items[i].ticket);
    if (!wire::sums_rows(operation.descriptor.kind)) break;
    const ChunkPlace place = operation.geometry->place(window.shard, items[i].chunk);
    if (place.lanes == 0) {  // A rendezvous: no cell, no lanes.
      if (i > 0) break;
      run[0] = {place, {}};
      return 1;
    }
    std::byte* const staging = staging_.data() + i * kDatagramBytesMax;
    run[i] = {place, rows_of(operation, place, staging)};
    if (run[i].lanes.empty()) {
      const numeric::RowShape shape{static_cast<uint16_t>(place.lanes), operation.descriptor.width};
      run[i].lanes = {staging, numeric::encode_rows(operation.descriptor.format, shape, {}, 0,
                                                    nullptr, staging)};
    }
    const auto bytes = static_cast<uint32_t>(frame + run[i].lanes.size());
    if (!padded.admits(bytes)) break;
  }
  for (size_t i = 0; i < padded.count(); ++i) {
    std::byte* const staging = staging_.data() + i * kDatagramBytesMax;
    const size_t bytes = padded.bytes() - frame;
    std::memset(staging + run[i].lanes.size(), 0, bytes - run[i].lanes.size());
    run[i].lanes = {staging, bytes};
  }
  return padded.count();
}

/// One or more runs of equal datagrams, each one system call.
void Engine::send_remote(Path& path, Window& window, std::span<core::Outgoing> items, Instant now) {
  while (!items.empty()) {
    StagedRun run;
    size_t count = stage_run(window, items, run);
    if (count == 0) {
      count = send_compact(path, window, items, now);
      if (count == 0) return;
    } else if (!send_run(path, window, items, std::span(run).first(count), now)) {
      return;
    }
    items = items.subspan(count);
  }
}

/// As many of the first chunks as are worth leaving zeros out of (P25). Puts items in order of
/// their lengths, so that those of a run need little padding.
/// @return how many; 0 if the socket is full.
size_t Engine::send_compact(Path& path, Window& window, std::span<core::Outgoing> items,
                            Instant now) {
  struct Candidate {
    core::Outgoing item;
    ChunkPlace place;
    std::span<const std::byte> lanes;
    wire::ZeroMap zeros;
    std::byte* staging;
  };
  const double ns_per_byte = arriving_.ns_per_byte();
  std::array<Candidate, net::kSegmentsMax> memory;
  SortedStretch stretch(ns_per_byte);
  for (size_t i = 0; i < items.size(); ++i) {
    const Operation& operation = *window.operation(items[i].ticket);
    if (wire::sums_rows(operation.descriptor.kind)) break;
    const ChunkPlace place = operation.geometry->place(window.shard, items[i].chunk);
    std::byte* const staging = staging_.data() + i * kDatagramBytesMax;
    const auto lanes = lanes_of(operation, place, staging);
    memory[i] = {items[i], place, lanes, zeros_to_spare(operation, lanes), staging};
    const uint16_t bytes = memory[i].zeros.bytes;
    if (bytes == 0 || !stretch.admits(bytes)) break;
  }
  auto found = std::span(memory).first(stretch.count());
  std::ranges::stable_sort(found, {}, [](const Candidate& one) { return one.zeros.bytes; });
  std::ranges::transform(found, items.begin(), &Candidate::item);
  counters_.compact += found.size();
  for (auto rest = items; !found.empty();) {
    SortedRun sorted(ns_per_byte);
    for (const Candidate& one : found) {
      if (!sorted.admits(one.zeros.bytes)) break;
    }
    StagedRun run;
    for (size_t i = 0; i < sorted.count(); ++i) {
      std::byte* const staging = found[i].staging;
      wire::compact(found[i].lanes, found[i].zeros, staging);
      wire::pad_compact(staging, found[i].zeros.bytes, sorted.bytes());
      run[i] = {found[i].place, {staging, sorted.bytes()}, true};
    }
    if (!send_run(path, window, rest, std::span(run).first(sorted.count()), now)) return 0;
    found = found.subspan(sorted.count());
    rest = rest.subspan(sorted.count());
  }
  return stretch.count();
}

/// One system call.
///
///   parts:  [cell 0: header 0][lanes 0][cell 1: tag 0, header 1][lanes 1] ... [cell n: tag n-1]
///
/// @param items  those of the run, and behind them what was to follow it.
/// @return false if the socket is full: what it did not take, and what was to follow, is sent again
///         at retry_at.
bool Engine::send_run(Path& path, Window& window, std::span<const core::Outgoing> items,
                      std::span<const Staged> staged, Instant now) {
  const size_t tag = signer_->tag_bytes();
  const auto length = [&](const Staged& one) {
    return static_cast<uint32_t>(wire::kHeaderBytes + one.lanes.size() + tag);
  };
  std::array<iovec, 2 * net::kSegmentsMax + 1> parts;
  size_t part_count = 0;
  for (size_t i = 0; i < staged.size(); ++i) {
    const Operation& operation = *window.operation(items[i].ticket);
    const std::span<const std::byte> lanes = staged[i].lanes;
    std::byte* cell = cells_.data() + i * kCellBytes;
    std::byte* next_cell = cell + kCellBytes;
    window.sent[items[i].slot] =
        signer_->seal(contribution_header(window, items[i], operation, staged[i]), lanes,
                      cell + wire::kTagBytes, next_cell);
    if (i == 0 || tag == 0) {
      parts[part_count++] = iovec{cell + wire::kTagBytes, wire::kHeaderBytes};
    } else {
      parts[part_count++] = iovec{cell, kCellBytes};
    }
    if (!lanes.empty()) {
      parts[part_count++] = iovec{const_cast<std::byte*>(lanes.data()), lanes.size()};
    }
  }
  if (tag != 0) {
    parts[part_count++] = iovec{cells_.data() + staged.size() * kCellBytes, wire::kTagBytes};
  }
  net::SendRun run;
  const bool connected = !path.sockets.empty();
  net::UdpSocket& socket = connected ? *path.sockets[path.next_flow] : *direct_socket_;
  if (connected) path.next_flow = static_cast<uint16_t>((path.next_flow + 1) % path.sockets.size());
  run.to = connected ? nullptr : &path.to;
  run.parts = {parts.data(), part_count};
  run.datagram_bytes = length(staged.front());
  run.last_bytes = length(staged.back());
  run.datagrams = static_cast<uint32_t>(staged.size());
  net::SendOutcome outcome = socket.send(run);
  if (outcome.failure == net::SendFailure::kRefused) outcome = socket.send(run);
  counters_.contributions += outcome.datagrams;
  if (outcome.would_block) {
    // The link is slower than we are. What did not fit is sent again shortly, as a repeat.
    counters_.blocked += staged.size() - outcome.datagrams;
    for (const core::Outgoing& item : items.subspan(outcome.datagrams)) {
      window.core.on_ask(item.slot, item.phase);
    }
    path.refused += static_cast<uint32_t>(items.size() - outcome.datagrams);
    path.retry_at = now + kBlockedRetry;
    return false;
  }
  if (outcome.failure != net::SendFailure::kNone) ++counters_.send_failures;
  return true;
}

void Engine::send_notes(Path& path, wire::Kind kind, uint16_t slot_base,
                        std::span<const core::Want> wants) {
  if (wants.empty()) return;
  std::array<std::byte, kNotesMax * wire::kNoteBytes> notes;
  for (size_t i = 0; i < wants.size(); ++i) {
    wire::write_note(wire::Note{static_cast<uint16_t>(slot_base + wants[i].slot),
                                wants[i].phase_or_number, wants[i].digest},
                     notes.data() + i * wire::kNoteBytes);
  }
  wire::Header header;
  header.kind = kind;
  header.total_or_next = path.heard;
  send_small(path, 0, header, std::span(notes).first(wants.size() * wire::kNoteBytes));
}

void Engine::send_small(Path& path, uint16_t flow, wire::Header header,
                        std::span<const std::byte> payload) {
  std::array<std::byte, kDatagramBytesMax> bytes;
  const size_t total = wire::kHeaderBytes + payload.size() + signer_->tag_bytes();
  SUMCAST_ASSERT(total <= bytes.size());
  header.epoch = static_cast<uint8_t>(epoch_.value);
  header.incarnation = incarnation_.value;
  std::byte* body = bytes.data() + wire::kHeaderBytes;
  if (!payload.empty()) std::memcpy(body, payload.data(), payload.size());
  signer_->seal(header, {body, payload.size()}, bytes.data(), body + payload.size());
  const iovec part{bytes.data(), total};
  const bool connected = !path.sockets.empty();
  net::UdpSocket& socket = connected ? *path.sockets[flow] : *direct_socket_;
  const net::SendOutcome outcome =
      socket.send(net::SendRun::single(connected ? nullptr : &path.to, part));
  if (!outcome.complete()) ++counters_.send_failures;
}

}  // namespace sumcast::collective
