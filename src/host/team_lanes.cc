// What is moved and added: between this rank's tensors and the segment.
#include <algorithm>
#include <cstring>

#include "host/team_run.h"
#include "numeric/codec.h"
#include "numeric/fold.h"
#include "numeric/stream_copy.h"

namespace sumcast::host {
namespace {

using wire::OperationKind;

/// f32 lanes of each source that are added at once where f16 and bf16 are.
constexpr uint64_t kBlockLanes = 1024;

WireFormat sixteen_bits(ElementType type) {
  return type == ElementType::kF16 ? WireFormat::kFP16 : WireFormat::kBF16;
}

/// memcpy that takes a null tensor of no bytes.
void copy(std::byte* to, const std::byte* from, uint64_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}

}  // namespace

void Team::Run::copy_in(uint64_t piece) {
  const Lanes lanes = course.lanes(piece);
  if (lanes.count == 0) return;
  const auto* tensor = static_cast<const std::byte*>(call.in);
  std::byte* input = team.segment_.input(me, buffer(piece));
  const uint64_t bytes = tensor_bytes(lanes.count);
  switch (what.kind) {
    case OperationKind::kBroadcast:
      if (what.root != team.layout_.me()) return;
      copy(course.net ? team.segment_.sum(buffer(piece)) : input,
           tensor + tensor_bytes(lanes.first), bytes);
      return;
    case OperationKind::kAllGather:
      copy(course.net ? team.segment_.sum(buffer(piece)) + course.own_part * bytes : input,
           tensor + tensor_bytes(lanes.first), bytes);
      return;
    case OperationKind::kReduceScatter: {
      const Layout& layout = team.layout_;
      // Seats that a smaller host does not have: int8 and fixed scale blocks across their lanes.
      const uint64_t parts = uint64_t{layout.hosts()} * layout.seats_max();
      if (course.net && parts != layout.size()) std::memset(input, 0, parts * bytes);
      for (uint32_t place = 0; place < layout.size(); ++place) {
        const uint64_t part = course.net ? uint64_t{layout.host_of(place)} * layout.seats_max() +
                                               layout.seat_of(place)
                                         : place;
        copy(input + part * bytes, tensor + tensor_bytes(place * what.count + lanes.first), bytes);
      }
      return;
    }
    default:
      break;
  }
  tensor += tensor_bytes(lanes.first);
  if (!skips_own) return copy(input, tensor, bytes);
  const Lanes own = course.slice(lanes.count, me, seats);  // Added straight from the tensor.
  copy(input, tensor, tensor_bytes(own.first));
  const uint64_t behind = tensor_bytes(own.first + own.count);
  copy(input + behind, tensor + behind, bytes - behind);
}

void Team::Run::fold(uint64_t piece) {
  const Lanes lanes = course.lanes(piece);
  const uint32_t b = buffer(piece);
  const uint64_t total = lanes.count * course.parts;
  auto* out = static_cast<std::byte*>(call.out);
  switch (course.folding) {
    case Folding::kNone:
      return;
    case Folding::kEachAll:
      if (what.kind == OperationKind::kReduce && what.root != team.layout_.me()) return;
      return fold_lanes(b, lanes.first, {0, total}, out + tensor_bytes(lanes.first));
    case Folding::kOwnPart:
      return fold_lanes(b, lanes.first, {course.own_part * lanes.count, lanes.count},
                        out + tensor_bytes(lanes.first));
    case Folding::kLeaderAll:
      if (me != 0) return;
      return fold_lanes(b, lanes.first, {0, total}, team.segment_.sum(b));
    case Folding::kSlices: {
      const Lanes mine = course.slice(total, me, seats);
      return fold_lanes(b, lanes.first, mine, team.segment_.sum(b) + carried_bytes(mine.first));
    }
  }
}

/// Adds lanes `flat` of all local ranks' inputs, in order of seat.
void Team::Run::fold_lanes(uint32_t b, uint64_t tensor_first, Lanes flat, std::byte* to) {
  if (flat.count == 0) return;
  std::vector<const std::byte*>& sources = team.sources_;
  sources.resize(seats);
  for (uint32_t seat = 0; seat < seats; ++seat) {
    sources[seat] = team.segment_.input(seat, b) + tensor_bytes(flat.first);
  }
  if (skips_own) {
    sources[me] = static_cast<const std::byte*>(call.in) + tensor_bytes(tensor_first + flat.first);
  }
  const uint32_t size = team.layout_.size();
  if (course.carried == course.type) {
    return numeric::fold(course.type, course.local_reduction, sources.data(), seats, flat.count,
                         size, to);
  }
  // f16 and bf16 on their way to other hosts: added in f32 and not rounded here (N2).
  team.scratch_.resize(size_t{seats} * kBlockLanes * sizeof(float));
  std::vector<const std::byte*>& wide = team.wide_sources_;
  wide.resize(seats);
  for (uint64_t at = 0; at < flat.count; at += kBlockLanes) {
    const uint64_t lanes = std::min(kBlockLanes, flat.count - at);
    for (uint32_t seat = 0; seat < seats; ++seat) {
      std::byte* block = team.scratch_.data() + seat * kBlockLanes * sizeof(float);
      numeric::decode(sixteen_bits(course.type), sources[seat] + tensor_bytes(at), lanes,
                      reinterpret_cast<float*>(block));
      wide[seat] = block;
    }
    numeric::fold(ElementType::kF32, course.local_reduction, wide.data(), seats, lanes, size,
                  to + carried_bytes(at));
  }
}

void Team::Run::copy_out(uint64_t piece) {
  const Lanes lanes = course.lanes(piece);
  if (lanes.count == 0) return;
  const Layout& layout = team.layout_;
  const uint32_t b = buffer(piece);
  auto* out = static_cast<std::byte*>(call.out);
  const std::byte* sum = team.segment_.sum(b);
  switch (what.kind) {
    case OperationKind::kBroadcast:
      if (what.root == layout.me()) return;
      if (!course.net) sum = team.segment_.input(layout.seat_of(what.root), b);
      break;
    case OperationKind::kAllGather:
      for (uint32_t place = 0; place < layout.size(); ++place) {
        const uint64_t part =
            uint64_t{layout.host_of(place)} * layout.seats_max() + layout.seat_of(place);
        const std::byte* from = course.net ? sum + part * carried_bytes(lanes.count)
                                           : team.segment_.input(layout.seat_of(place), b);
        copy_result(from, out + tensor_bytes(place * what.count + lanes.first), lanes.count);
      }
      return;
    case OperationKind::kReduceScatter:
      if (!course.net) return;  // fold() has stored it.
      sum += course.own_part * carried_bytes(lanes.count);
      break;
    case OperationKind::kReduce:
      if (what.root != layout.me()) return;
      break;
    default:
      break;
  }
  if (course.folding == Folding::kEachAll) return;  // fold() has stored it.
  copy_result(sum, out + tensor_bytes(lanes.first), lanes.count);
}

/// Lanes of a sum into the tensor: divided and rounded there if they were not before.
void Team::Run::copy_result(const std::byte* from, std::byte* to, uint64_t lanes) {
  if (course.carried == course.type && !course.divides) {
    if (streams) return numeric::stream_copy(to, from, tensor_bytes(lanes));
    return copy(to, from, tensor_bytes(lanes));
  }
  const uint32_t size = team.layout_.size();
  const auto divide = [&](const std::byte* source, uint64_t count, std::byte* into) {
    numeric::fold(course.carried, Reduction::kAvg, &source, 1, count, size, into);
  };
  if (course.carried == course.type) return divide(from, lanes, to);
  std::array<float, kBlockLanes> block;
  for (uint64_t at = 0; at < lanes; at += kBlockLanes) {
    const uint64_t count = std::min(kBlockLanes, lanes - at);
    const std::byte* source = from + carried_bytes(at);
    if (course.divides) {
      divide(source, count, reinterpret_cast<std::byte*>(block.data()));
    } else {
      copy(reinterpret_cast<std::byte*>(block.data()), source, count * sizeof(float));
    }
    numeric::encode(sixteen_bits(course.type), block.data(), count, to + tensor_bytes(at));
  }
}

}  // namespace sumcast::host
