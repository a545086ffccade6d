// How an operation goes through a host: cut into pieces, and what each rank does with a piece.
//
//   in     every rank copies its part of the piece into its input
//   fold   the inputs are added, each rank a slice of the lanes, into the piece's sum
//   net    the leader exchanges the sum with those of the other hosts (absent on one host)
//   out    every rank copies what it wants into its tensor
//
//   all-reduce, reduce   in, fold (slices)               net  out
//     small ones         in, fold (all, by each: one host; by the leader: several)
//   reduce-scatter       in, fold (own part to output; slices with several hosts)
//   all-gather, broadcast in                             net  out
//   barrier              in                              net
//
// A piece holds `parts` runs of lanes side by side: one for most operations, one per rank for
// all-gather and reduce-scatter. Equal on all ranks of a host, since it follows from the descriptor
// and the layout. Pure arithmetic; it knows neither memory nor waiting.
#pragma once

#include <cstdint>

#include "base/element.h"
#include "host/layout.h"
#include "wire/descriptor.h"

namespace sumcast::host {

/// Room for a piece of an input; measured (docs/perf-notes.md).
inline constexpr uint32_t kPieceBytes = 256 << 10;
/// Hosts times ranks of the fullest one: a piece has a lane of each.
inline constexpr uint64_t kPlacesMax = kPieceBytes / sizeof(double);

/// Who adds what.
enum class Folding : uint8_t {
  kNone,       ///< Nothing is added.
  kEachAll,    ///< Each rank adds all lanes, into its own tensor: one wait less.
  kOwnPart,    ///< Each rank adds its own part, into its own tensor.
  kLeaderAll,  ///< The leader adds all lanes, into the sum.
  kSlices,     ///< Each rank adds a slice of the lanes, into the sum.
};

/// Lanes of a piece.
struct Lanes {
  uint64_t first = 0;  ///< In each part of the tensor.
  uint64_t count = 0;  ///< Of each part.
};

struct Course {
  /// @param piece_bytes  room for one piece in an input or a sum.
  Course(const wire::OperationDescriptor& what, const Layout& layout, uint32_t piece_bytes);

  Lanes lanes(uint64_t piece) const;
  /// The slice of `total` lanes that seat `seat` of `seats` adds: whole cache lines.
  Lanes slice(uint64_t total, uint32_t seat, uint32_t seats) const;

  ElementType type;           ///< Of the tensors.
  ElementType carried;        ///< Of sums: f32 for f16 and bf16 that cross hosts (N2).
  Reduction local_reduction;  ///< Of the host's ranks.
  Reduction net_reduction;    ///< Of the hosts' sums.
  bool divides = false;       ///< The average is taken at the very end, after the hosts' sum.
  Folding folding = Folding::kNone;
  bool net = false;       ///< Several hosts.
  uint32_t parts = 1;     ///< Side by side in a piece.
  uint64_t part_lanes;    ///< Of each part, in the whole operation.
  uint64_t piece_lanes;   ///< Of each part, in every piece but the last.
  uint64_t pieces;        ///< At least 1: also an operation without lanes is a meeting.
  uint64_t own_part = 0;  ///< Index of this rank's part, where parts > 1.
};

}  // namespace sumcast::host
