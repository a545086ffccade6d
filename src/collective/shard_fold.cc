// Contributions: judged by the pool, folded when the last one came, written as a result datagram.
#include <algorithm>
#include <array>
#include <cstring>

#include "base/assert.h"
#include "collective/shard_host.h"
#include "collective/shard_state.h"
#include "numeric/codec.h"
#include "numeric/fold.h"
#include "numeric/rows.h"
#include "wire/compact.h"

namespace sumcast::collective {
namespace {

constexpr size_t kInt8BlockBytes = numeric::kBlockLanes + sizeof(float);

/// The bytes of a payload when it is whole; nothing if it is none.
std::optional<size_t> whole_bytes(const wire::Header& header, std::span<const std::byte> payload) {
  if ((header.flags & wire::kFlagCompact) == 0) return payload.size();
  if ((header.flags & wire::kFlagRows) != 0) return std::nullopt;
  return wire::expanded_bytes(payload);
}

/// Can these lengths and enumerators be folded at all? The digest makes ranks agree; this makes a
/// shard safe from a member that disagrees with its own digest.
bool is_foldable(const wire::Header& header, std::span<const std::byte> lanes, size_t lanes_bytes,
                 size_t lanes_bytes_max) {
  if ((header.flags & wire::kFlagRows) != 0) {
    if (header.type != ElementType::kF32 ||
        (header.reduction != Reduction::kSum && header.reduction != Reduction::kAvg) ||
        !numeric::is_rows(header.format, lanes)) {
      return false;
    }
    // P15: the union of all members' rows must fit, whatever they are.
    const numeric::RowShape shape = numeric::shape_of(lanes);
    return numeric::rows_payload_bytes(header.format, shape, shape.slots) <= lanes_bytes_max;
  }
  if (header.format == WireFormat::kNative || header.format == WireFormat::kFixed) {
    return reduction_applies(header.type, header.reduction) &&
           lanes_bytes % element_bytes(header.type) == 0;
  }
  if (header.type != ElementType::kF32) return false;
  if (!numeric::wire_format_applies(header.type, header.reduction, header.format)) return false;
  if (header.format != WireFormat::kInt8) return lanes_bytes % 2 == 0;
  const size_t ragged = lanes_bytes % kInt8BlockBytes;
  return ragged == 0 || ragged > sizeof(float);
}

/// What headers of one slot must have in common, or the last one would decide how all addends are
/// read: the digest binds honest members to this, and a shard is safe from others.
uint32_t kind_of(const wire::Header& header) {
  return static_cast<uint32_t>(header.type) | static_cast<uint32_t>(header.reduction) << 8 |
         static_cast<uint32_t>(header.format) << 16 |
         (header.flags & uint32_t{wire::kFlagRows}) << 24;
}

/// What payloads of one slot must have in common: their length; the shape, if they are rows.
uint32_t measure_of(const wire::Header& header, std::span<const std::byte> lanes,
                    size_t lanes_bytes) {
  if ((header.flags & wire::kFlagRows) == 0) return static_cast<uint32_t>(lanes_bytes);
  const numeric::RowShape shape = numeric::shape_of(lanes);
  return uint32_t{shape.slots} << 16 | shape.width;
}

/// The lanes in a payload of an encoded format.
size_t lanes_in(WireFormat format, size_t lanes_bytes) {
  if (format != WireFormat::kInt8) return lanes_bytes / 2;
  const size_t ragged = lanes_bytes % kInt8BlockBytes;
  return lanes_bytes / kInt8BlockBytes * numeric::kBlockLanes +
         (ragged == 0 ? 0 : ragged - sizeof(float));
}

}  // namespace

void ShardHost::on_local_contribution(const wire::Header& header, std::span<const std::byte> lanes,
                                      bool copy, Instant now) {
  const auto found = jobs_.find(Incarnation(header.incarnation));
  SUMCAST_ASSERT(found != jobs_.end());
  counters_.add(ShardCount::kReceived);
  on_contribution(*found->second, header, lanes, net::kNoBuffer, copy, now);
}

void ShardHost::on_contribution(Job& job, const wire::Header& header,
                                std::span<const std::byte> lanes, net::BufferIndex buffer,
                                bool copy, Instant now) {
  Group* group = group_of_slot(job, header.slot);
  const int32_t member = group == nullptr ? -1 : group->member_of_rank[header.sender];
  const std::optional<size_t> bytes = whole_bytes(header, lanes);
  if (member < 0 || !bytes || *bytes > group->lanes_bytes_max || group->poisoned ||
      (!lanes.empty() && !is_foldable(header, lanes, *bytes, group->lanes_bytes_max))) {
    return counters_.add(ShardCount::kForeign);
  }
  const bool compact = (header.flags & wire::kFlagCompact) != 0;
  copy |= compact;  // Expanded where a copy would be kept.
  const auto slot = static_cast<uint16_t>(header.slot - group->slot_base);
  core::SlotPool& pool = group->pool;
  const bool opens = !pool.is_open(slot);
  const uint32_t measure = lanes.empty() ? 0 : measure_of(header, lanes, *bytes);
  const bool same_operation =
      !opens && header.digest == pool.collecting_digest(slot) && header.phase == pool.phase(slot);
  if (same_operation &&
      (kind_of(header) != group->open_kind[slot] ||
       (measure != 0 && group->open_measure[slot] != 0 && group->open_measure[slot] != measure))) {
    return counters_.add(ShardCount::kForeign);  // Same operation, other lanes: not of our making.
  }
  core::Contribution in;
  in.slot = slot;
  in.member = static_cast<uint16_t>(member);
  in.phase = header.phase;
  in.digest = header.digest;
  in.chunk = header.chunk;
  in.total = header.total_or_next;
  in.quiet = (header.flags & wire::kFlagQuiet) != 0;
  if (!lanes.empty()) {
    in.payload = copy ? pack_payload(group->stash_at(slot, in.member), net::kNoBuffer)
                      : pack_payload(lanes.data(), buffer);
  }
  switch (pool.on_contribution(in, now)) {
    case core::Verdict::kAccepted:
    case core::Verdict::kCompleted:
      break;
    case core::Verdict::kDuplicate:
      return counters_.add(ShardCount::kDuplicate);
    case core::Verdict::kAnswer:
      counters_.add(ShardCount::kAnswered);
      repairs_.push_back(Repair{group, slot, in.member});
      return;
    case core::Verdict::kStale:
      return counters_.add(ShardCount::kStale);
    case core::Verdict::kMismatch:
      counters_.add(ShardCount::kMismatch);
      return report_mismatch(job, *group, slot, header);
    case core::Verdict::kForeign:
      return counters_.add(ShardCount::kForeign);
  }
  counters_.add(ShardCount::kAccepted);
  if (opens) {
    group->open_measure[slot] = 0;
    group->open_kind[slot] = kind_of(header);
    group->open_compact[slot] = 0;
    group->has_quiet[(header.phase & 1u) * size_t{group->slots} + slot] = 0;
  }
  if (in.quiet) group->has_quiet[(header.phase & 1u) * size_t{group->slots} + slot] = 1;
  if (!lanes.empty()) {
    group->open_measure[slot] = measure;
    if (compact) {
      group->open_compact[slot] = 1;
      wire::expand(lanes, group->stash_at(slot, in.member));
    } else if (copy) {
      std::memcpy(group->stash_at(slot, in.member), lanes.data(), lanes.size());
    } else if (buffer != net::kNoBuffer) {
      buffers_.add_reference(buffer);
    }
  }
  // Counted last: is the slot complete? (The pool has moved on to the next phase then.)
  if (pool.phase(slot) == header.phase) return;
  note_completion(job, *group, slot, header);
  complete(job, *group, slot, header);
}

/// For people: how long operations take, and whom they wait for.
void ShardHost::note_completion(Job& job, Group& group, uint16_t slot, const wire::Header& header) {
  if (header.chunk == 0) job.members[header.sender].waited_for += group.pool.stored(slot).waited;
  const auto span = group.pool.finished_operation();
  if (!span) return;
  group.sending.on_pause();
  counters_.add(ShardWork::kOperations);
  counters_.operations += *span;
}

std::map<Incarnation, std::vector<Duration>> ShardHost::waited_for() const {
  std::map<Incarnation, std::vector<Duration>> all;
  for (const auto& [incarnation, job] : jobs_) {
    for (const Member& member : job->members) all[incarnation].push_back(member.waited_for);
  }
  return all;
}

/// Folds in group order (docs/numerics.md) straight into the result's datagram.
void ShardHost::complete(Job& job, Group& group, uint16_t slot, const wire::Header& header) {
  thread_local std::vector<const std::byte*> sources;
  sources.clear();
  const auto payloads = group.pool.payloads(slot);
  for (const uint64_t packed : payloads) {
    if (packed != 0) sources.push_back(payload_address(packed));
  }
  const bool rows = (header.flags & wire::kFlagRows) != 0;
  uint32_t lanes_bytes = sources.empty() || rows ? 0 : group.open_measure[slot];
  std::byte* out = group.result(slot) + wire::kHeaderBytes;
  const uint32_t size = group.members();
  if (rows && !sources.empty()) {
    thread_local std::vector<const std::byte*> scratch;
    scratch.resize(2 * sources.size());
    lanes_bytes = static_cast<uint32_t>(numeric::fold_rows(
        header.format, header.reduction, sources.data(), sources.size(), size, scratch, out));
    counters_.add(ShardWork::kBytesFolded, lanes_bytes);
  }
  group.result_lanes[group.version_index(slot)] = lanes_bytes;
  if (lanes_bytes != 0 && !rows) {
    if (header.reduction == Reduction::kCopy) {
      std::memcpy(out, sources.front(), lanes_bytes);
    } else if (header.format == WireFormat::kNative) {
      numeric::fold(header.type, header.reduction, sources.data(), sources.size(),
                    lanes_bytes / element_bytes(header.type), size, out);
    } else if (header.format == WireFormat::kFixed) {
      numeric::fold(ElementType::kI32, Reduction::kSum, sources.data(), sources.size(),
                    lanes_bytes / 4, size, out);
    } else {
      numeric::fold_encoded(header.format, header.reduction, sources.data(), sources.size(),
                            lanes_in(header.format, lanes_bytes), size, out);
    }
    counters_.add(ShardWork::kBytesFolded, lanes_bytes * sources.size());
  }
  for (const uint64_t packed : payloads) {
    const auto buffer = payload_buffer(packed);
    if (packed != 0 && buffer != net::kNoBuffer) buffers_.release(buffer);
  }
  wire::Header result = result_header(group, slot, header);
  if (group.open_compact[slot] && make_compact(group, slot)) result.flags |= wire::kFlagCompact;
  if (rows || (result.flags & wire::kFlagCompact) != 0) {
    wire::write(result, group.result(slot));
    group.unsealed.push_back(slot);  // Sealed when it is known what goes out with it.
  } else {
    seal_result(job, group, slot, result);
  }
  if (group.completed.empty()) dirty_.push_back(&group);
  group.completed.push_back(slot);
  counters_.add(ShardWork::kResults);
}

/// Leaves zeros out of a sum that has enough of them (P25).
bool ShardHost::make_compact(Group& group, uint16_t slot) {
  uint32_t& lanes_bytes = group.result_lanes[group.version_index(slot)];
  std::byte* const lanes = group.result(slot) + wire::kHeaderBytes;
  const wire::ZeroMap zeros = wire::find_zeros({lanes, lanes_bytes});
  if (zeros.bytes == 0) return false;
  wire::compact({lanes, lanes_bytes}, zeros, lanes);
  lanes_bytes = zeros.bytes;
  counters_.add(ShardWork::kCompact);
  return true;
}

/// Results whose lengths differ: those of a run are padded to one length, then sealed.
void ShardHost::seal_padded(Job& job, Group& group) {
  auto& slots = group.unsealed;
  if (slots.empty()) return;
  thread_local std::vector<uint16_t> as_completed;
  as_completed.assign(slots.begin(), slots.end());
  for (auto left = std::span(slots); !left.empty();) {
    const bool compact = is_compact(group, left.front());
    left = left.subspan(compact ? seal_compact(job, group, left) : seal_rows(job, group, left));
  }
  size_t next = 0;
  for (uint16_t& slot : group.completed) {
    if (next < slots.size() && slot == as_completed[next]) slot = slots[next++];
  }
  slots.clear();
}

/// As many of the first ones as make a run of rows. @return how many.
size_t ShardHost::seal_rows(Job& job, Group& group, std::span<const uint16_t> slots) {
  PaddedRun run;
  for (const uint16_t slot : slots) {
    if (is_compact(group, slot) || !run.admits(group.result_bytes(slot))) break;
  }
  for (const uint16_t slot : slots.first(run.count())) {
    uint32_t& lanes_bytes = group.result_lanes[group.version_index(slot)];
    if (lanes_bytes != 0) {  // Else nobody sent even an empty cell: nothing can be padded.
      const uint32_t padding = run.bytes() - group.result_bytes(slot);
      std::memset(group.result(slot) + wire::kHeaderBytes + lanes_bytes, 0, padding);
      lanes_bytes += padding;
    }
    seal_result(job, group, slot, written_header(group, slot));
  }
  return run.count();
}

/// As many of the first ones as may be put in order of their lengths (P25). @return how many.
size_t ShardHost::seal_compact(Job& job, Group& group, std::span<uint16_t> slots) {
  const double ns_per_byte = group.sending.ns_per_byte();
  const auto length = [&](uint16_t slot) { return group.result_bytes(slot); };
  SortedStretch stretch(ns_per_byte);
  for (const uint16_t slot : slots) {
    if (!is_compact(group, slot) || !stretch.admits(length(slot))) break;
  }
  const auto sorted = slots.first(stretch.count());
  std::ranges::stable_sort(sorted, {}, length);
  for (std::span<const uint16_t> left = sorted; !left.empty();) {
    SortedRun run(ns_per_byte);
    for (const uint16_t slot : left) {
      if (!run.admits(length(slot))) break;
    }
    for (const uint16_t slot : left.first(run.count())) {
      uint32_t& lanes_bytes = group.result_lanes[group.version_index(slot)];
      const uint32_t padded = lanes_bytes + run.bytes() - length(slot);
      wire::pad_compact(group.result(slot) + wire::kHeaderBytes, lanes_bytes, padded);
      lanes_bytes = padded;
      seal_result(job, group, slot, written_header(group, slot));
    }
    left = left.subspan(run.count());
  }
  return sorted.size();
}

wire::Header ShardHost::written_header(Group& group, uint16_t slot) {
  wire::Header header;
  const auto parsed = wire::parse({group.result(slot), wire::kHeaderBytes}, header);
  SUMCAST_ASSERT(parsed == wire::ParseError::kNone);
  return header;
}

bool ShardHost::is_compact(Group& group, uint16_t slot) {
  return (written_header(group, slot).flags & wire::kFlagCompact) != 0;
}

wire::Header ShardHost::result_header(const Group& group, uint16_t slot,
                                      const wire::Header& request) {
  const core::StoredResult& stored = group.pool.stored(slot);
  wire::Header header = request;
  header.kind = wire::Kind::kResult;
  header.flags = request.flags & wire::kFlagRows;
  header.slot = static_cast<uint16_t>(group.slot_base + slot);
  header.phase = stored.phase;
  header.digest = stored.digest;
  header.chunk = stored.chunk;
  header.total_or_next = stored.number;
  return header;
}

/// Header and tag around the lanes; once for all members (and once without lanes, if some member
/// wants none). From here on these bytes do not change (P5).
void ShardHost::seal_result(Job& job, Group& group, uint16_t slot, wire::Header header) {
  const uint32_t lanes_bytes = group.result_lanes[group.version_index(slot)];
  std::byte* out = group.result(slot);
  group.result_counter[group.version_index(slot)] = job.signer.seal(
      header, {out + wire::kHeaderBytes, lanes_bytes}, out, out + wire::kHeaderBytes + lanes_bytes);
  if (lanes_bytes != 0 && group.has_quiet[group.version_index(slot)]) {
    header.flags = static_cast<uint8_t>((header.flags | wire::kFlagQuiet) & ~wire::kFlagCompact);
    std::byte* empty = group.empty_result(slot);
    job.signer.seal(header, {}, empty, empty + wire::kHeaderBytes);
  }
}

/// Once per group: the authority names both operations to everybody and aborts the group (P4).
void ShardHost::report_mismatch(Job& job, Group& group, uint16_t slot, const wire::Header& header) {
  if (group.poisoned) return;
  group.poisoned = true;
  if (!on_mismatch_) return;
  control::Mismatch mismatch;
  mismatch.group = group.id;
  mismatch.rank_a = group.ranks[group.pool.first_member(slot)];
  mismatch.digest_a = group.pool.collecting_digest(slot);
  mismatch.rank_b = Rank(header.sender);
  mismatch.digest_b = header.digest;
  on_mismatch_(job.incarnation, mismatch);
}

}  // namespace sumcast::collective
