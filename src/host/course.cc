#include "host/course.h"

#include <algorithm>

#include "base/assert.h"

namespace sumcast::host {
namespace {

using wire::OperationKind;

/// Up to this size one rank (or each) adds everything: a second wait costs more than the additions.
constexpr uint64_t kSmallBytes = 16384;
constexpr uint64_t kLineBytes = 64;
/// Wire formats have a scale or an exponent per 256 elements: pieces start where blocks do.
constexpr uint64_t kBlock = 256;

bool is_half(ElementType type) { return type == ElementType::kF16 || type == ElementType::kBF16; }

}  // namespace

Course::Course(const wire::OperationDescriptor& what, const Layout& layout, uint32_t piece_bytes)
    : type(what.type),
      carried(what.type),
      local_reduction(what.reduction),
      net_reduction(what.reduction),
      net(layout.hosts() > 1),
      part_lanes(what.kind == OperationKind::kBarrier ? 0 : what.count) {
  const bool partitioned =
      what.kind == OperationKind::kAllGather || what.kind == OperationKind::kReduceScatter;
  const bool adds = what.reduction != Reduction::kCopy;
  if (net && adds) {
    const bool rounds = what.reduction == Reduction::kSum || what.reduction == Reduction::kAvg ||
                        what.reduction == Reduction::kProduct;
    if (is_half(type) && rounds) carried = ElementType::kF32;
    if (what.reduction == Reduction::kAvg && type == ElementType::kBool) {
      net_reduction = Reduction::kAnd;  // N8.
    } else if (what.reduction == Reduction::kAvg) {
      net_reduction = Reduction::kSum;
      // N4: once, at the end. Formats with little range want the share instead of the sum.
      divides = what.format == WireFormat::kNative;
      if (divides) local_reduction = Reduction::kSum;
    }
  }
  if (partitioned) {
    // With several hosts every host has as many places as the fullest one: equal contributions.
    parts = net ? layout.hosts() * layout.seats_max() : layout.size();
    own_part =
        net ? layout.my_host() * layout.seats_max() + layout.my_seat() : uint64_t{layout.my_seat()};
  }
  const uint64_t element = element_bytes(carried);
  const bool gathers_alone = what.kind == OperationKind::kAllGather && !net;
  piece_lanes = piece_bytes / element / (gathers_alone ? 1 : parts);
  SUMCAST_ASSERT(piece_lanes >= 1);
  if (piece_lanes > kBlock) piece_lanes -= piece_lanes % kBlock;
  pieces = std::max<uint64_t>(1, (part_lanes + piece_lanes - 1) / piece_lanes);
  if (!adds) return;
  const bool small = pieces == 1 && part_lanes * parts * element <= kSmallBytes;
  if (what.kind == OperationKind::kReduceScatter && !net) {
    folding = Folding::kOwnPart;
  } else if (small) {
    folding = net ? Folding::kLeaderAll : Folding::kEachAll;
  } else {
    folding = Folding::kSlices;
  }
}

Lanes Course::lanes(uint64_t piece) const {
  const uint64_t first = piece * piece_lanes;
  return {first, std::min(piece_lanes, part_lanes - std::min(part_lanes, first))};
}

Lanes Course::slice(uint64_t total, uint32_t seat, uint32_t seats) const {
  const uint64_t line = kLineBytes / element_bytes(type);
  const uint64_t lines = (total + line - 1) / line;
  const uint64_t first = std::min(total, lines * seat / seats * line);
  const uint64_t end = std::min(total, lines * (seat + 1) / seats * line);
  return {first, end - first};
}

}  // namespace sumcast::host
