// What an operation is, in full, and the 32-bit digest of it that travels on every datagram.
//
// Ranks that call different things have different digests (but for one chance in 2^24) and are
// stopped at the first chunk; the full text of both is fetched only then (P4).
#pragma once

#include <cstdint>
#include <string>

#include "base/element.h"
#include "base/ids.h"

namespace sumcast::wire {

/// Values stand in the digest and are never renumbered.
enum class OperationKind : uint8_t {
  kAllReduce = 1,
  kReduce = 2,
  kBroadcast = 3,
  kAllGather = 4,
  kReduceScatter = 5,
  kBarrier = 6,
  kBlockCodes = 7,  ///< The exponents that precede an all-reduce of wire format `fixed`.
  kRowSum = 8,      ///< Of a table of which each rank touches a few rows; all get the sums.
  kRowReduce = 9,   ///< The same; the root gets the sums.
};

const char* name_of(OperationKind kind);

struct OperationDescriptor {
  GroupId group{};
  uint32_t sequence = 0;  ///< Counts the operations of a group, from 0, on every rank alike.
  OperationKind kind = OperationKind::kAllReduce;
  ElementType type = ElementType::kF32;
  Reduction reduction = Reduction::kSum;
  WireFormat format = WireFormat::kNative;
  uint16_t root = 0;   ///< Rank in the group, for reduce, broadcast and row_reduce; else 0.
  uint16_t width = 0;  ///< Lanes of a row, for row_sum and row_reduce; else 0.
  uint64_t count = 0;  ///< Elements: of the tensor; per rank for all-gather and reduce-scatter.
                       ///< Rows, for row_sum and row_reduce.
  /// The fingerprint of the operation that this one carries a piece of between hosts; 0: none. So
  /// that hosts which do different things are stopped at the first piece, whatever it looks like.
  uint64_t part_of = 0;
};

/// Is this a sum of rows, whose chunks are cells (numeric/rows.h)?
constexpr bool sums_rows(OperationKind kind) {
  return kind == OperationKind::kRowSum || kind == OperationKind::kRowReduce;
}

/// A 64-bit hash of all fields.
uint64_t fingerprint_of(const OperationDescriptor& descriptor);

/// 24 bits of a hash of all fields, then the sequence's low 8 bits: operations of a group that are
/// under way at once, at most 256, never share a digest. Never 0 (0 means "none").
uint32_t digest_of(const OperationDescriptor& descriptor);

/// "all_reduce f32[1000] sum", "broadcast f32[10] from rank 2", "barrier".
std::string describe(const OperationDescriptor& descriptor);

}  // namespace sumcast::wire
