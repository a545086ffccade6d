// Moves one collective's bytes between this rank, the rank after it and the rank before it, adding
// on the way. All algorithms of this room are lists for this one loop.
//
//   outgoing   pieces that are sent one after the other to `to`
//   incoming   pieces that arrive one after the other from `from`; each is either stored or
//              combined with this rank's own values
//
// A step of a ring sends what the step before has received. Instead of finishing step after step,
// a piece may *follow* another: it is sent as far as the incoming piece has got. So the whole ring
// is one stream in and one stream out, in which a byte is passed on as soon as it was added, and
// neither the network nor the adding waits for the end of a step.
//
//   in    | chunk 2, added | chunk 1, added | chunk 0, stored | ...
//                \ follows        \ follows
//   out   | chunk 3        | chunk 2        | chunk 1         | ...
//
// The reverse dependency exists too: working memory that is used again may be written only as far
// as its former content has been sent (`after`).
//
// Each transfer begins with 16 bytes that say which operation it belongs to. They are compared
// before a byte of data is stored, and cost no message of their own.
//
// One thread does all: send what may be sent, receive what has come, add it while it is in the
// cache. If only the peer can go on, the thread sleeps in recv(); if either end may move first, in
// ppoll(). The kernel's socket buffers are what overlaps the network with the adding.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/element.h"
#include "base/ids.h"
#include "base/result.h"
#include "base/time.h"
#include "mesh/stream.h"

namespace sumcast::mesh {

inline constexpr uint32_t kNoPiece = UINT32_MAX;

/// Bytes that leave. They may be written by an incoming piece, as far as `follows` tells.
struct Outgoing {
  const std::byte* data = nullptr;
  size_t bytes = 0;
  uint32_t follows = kNoPiece;  ///< Index of the incoming piece whose bytes these are.
};

/// Bytes that arrive, whole elements.
struct Incoming {
  std::byte* target = nullptr;
  size_t bytes = 0;
  const std::byte* own = nullptr;  ///< Combined with what arrives (left operand); may be target.
                                   ///< nullptr: stored as it comes.
  Reduction reduction = Reduction::kCopy;
  uint32_t after = kNoPiece;  ///< Index of the outgoing piece that must leave first, byte by byte.
};

/// How elements are combined.
struct Arithmetic {
  ElementType type = ElementType::kU8;
  uint32_t group_size = 1;  ///< What kAvg divides by.
};

/// What a transfer is part of; sent in front of it and compared.
struct OperationName {
  uint32_t magic = 0x31504F53;  // "SOP1"
  uint32_t sequence = 0;
  uint32_t digest = 0;
  GroupId group;
  Rank rank;  ///< The sender's, of the job.
};
static_assert(sizeof(OperationName) == 16);

/// Bytes that one receive takes and that are added at once: they stay in a core's second cache.
inline constexpr size_t kSegmentBytes = 256 << 10;

/// A transfer. Made, run once, thrown away; memory is the caller's.
struct Transfer {
  Stream* to = nullptr;    ///< nullptr: nothing is sent, not even a name.
  Stream* from = nullptr;  ///< nullptr: nothing is received.
  std::span<const Outgoing> outgoing;
  std::span<const Incoming> incoming;
  Arithmetic arithmetic;
  OperationName name;
  std::byte* segment = nullptr;  ///< kSegmentBytes; not needed without `from`.
};

/// Runs it to its end.
///
/// Errors: kUnavailable (a stream broke; names the peer), kTimeout (names who does not move),
/// kMismatch (the peer is at another operation; names both ranks). After an error the streams are
/// of no more use, and targets hold an unknown part of the result.
Result<void> pump(const Transfer& transfer, Instant deadline);

}  // namespace sumcast::mesh
