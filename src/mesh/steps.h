// What the algorithms share: one collective on its way, seen as transfers between places of a
// group. Private to this room.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/element.h"
#include "base/result.h"
#include "mesh/algorithms.h"
#include "mesh/pump.h"

namespace sumcast::mesh {

/// Below this, fewer hops count for more than fewer bytes.
inline constexpr size_t kTinyBytes = 4 << 10;

/// A part of a tensor, in bytes.
struct Extent {
  size_t begin = 0;
  size_t end = 0;

  size_t bytes() const { return end - begin; }
};

/// Part `index` of `parts` equal ones, cut at 64-byte lines, which no element straddles.
inline Extent part_of(Extent whole, uint64_t index, uint64_t parts) {
  constexpr uint64_t kLine = 64;
  const uint64_t lines = (whole.bytes() + kLine - 1) / kLine;
  // Cut so that the first parts are the larger ones and no product overflows.
  const auto cut = [&](uint64_t i) {
    const uint64_t line = i * (lines / parts) + std::min(i, lines % parts);
    return whole.begin + std::min<uint64_t>(line * kLine, whole.bytes());
  };
  return {cut(index), cut(index + 1)};
}

/// Which reduction the hops use. An average is a sum until its last addition divides; bool's
/// average is `and` (N8), which is associative, so that every hop takes it.
inline Reduction hop_reduction(ElementType type, Reduction reduction) {
  if (reduction != Reduction::kAvg || type == ElementType::kBool) return reduction;
  return Reduction::kSum;
}

/// One call. Lives on the caller's stack.
class Steps {
 public:
  /// @param scratch_bytes  working memory wanted beside the pump's.
  Steps(Mesh& mesh, const MeshCall& call, ElementType type, Reduction reduction,
        size_t scratch_bytes = 0);

  uint32_t size() const { return static_cast<uint32_t>(call_.ranks.size()); }
  uint32_t me() const { return call_.me; }
  Reduction hop() const { return hop_reduction(arithmetic_.type, reduction_); }
  Reduction last() const { return reduction_; }
  std::byte* scratch() const { return scratch_.data() + kSegmentBytes; }

  /// Sends to place `to` and receives from place `from`; nullopt leaves that side out.
  Result<void> transfer(std::optional<uint32_t> to, std::span<const Outgoing> outgoing,
                        std::optional<uint32_t> from, std::span<const Incoming> incoming);
  /// Combines `sources` on this rank alone, in their order.
  void fold(std::span<const std::byte* const> sources, size_t bytes, std::byte* out);

  /// To be returned by every collective: after a failure the group is aborted, so that neighbours
  /// do not wait for this rank, and the reason is the first one known; behind a stream that broke
  /// it is waited for, kSuspicion at most.
  Result<void> finish(Result<void> outcome);

 private:
  Result<std::shared_ptr<Stream>> stream_to(uint32_t place);

  Mesh& mesh_;
  const MeshCall& call_;
  Arithmetic arithmetic_;
  Reduction reduction_;
  Scratch scratch_;
};

/// kInvalidArgument if the pair does not exist, or is no reduction.
Result<void> check_reduction(ElementType type, Reduction reduction);
/// kInvalidArgument unless `root` is a place in the group.
Result<void> check_root(const MeshCall& call, uint32_t root);

inline const std::byte* as_bytes(const void* data) { return static_cast<const std::byte*>(data); }
inline std::byte* as_bytes(void* data) { return static_cast<std::byte*>(data); }

}  // namespace sumcast::mesh
