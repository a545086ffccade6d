// f32 as int32 lanes under one exponent per block of 256: what a switch can add.
//
// Three steps, the first two of which the caller carries over the network:
//   1. every rank computes the code of each block; the codes of all ranks are combined by the
//      maximum of each byte (that is fold(kU8, kMax), or two register operations of a switch);
//   2. every rank encodes its lanes with the combined codes; lanes are added as wrapping int32
//      (fold(kI32, kSum)), in any order and any grouping;
//   3. every rank decodes the sums with the same codes.
// Blocks are counted from the tensor's start and do not know packets; a chunk may begin anywhere.
//
// The headroom makes overflow impossible at any group size. NaN and infinities cannot be int32
// values: a block in which any rank holds one is encoded otherwise, each lane split into a
// narrower value and two counters. The arithmetic, the proofs and the bounds are in
// docs/numerics.md, N14 to N18.
//
// Lanes lie in host order, which is little endian; a data plane that wants another order swaps.
#pragma once

#include <cstddef>
#include <cstdint>

#include "numeric/codec.h"
#include "numeric/fold.h"

namespace sumcast::numeric {

/// What all ranks must agree on before a block is encoded. Two bytes on the wire, in this order;
/// the code of several ranks is the maximum of each byte.
struct BlockCode {
  uint8_t exponent = 0;  ///< E: the biased f32 exponent of the largest finite |x|; |x| < 2^(E-126).
  uint8_t nonfinite = 0;  ///< 1 if the block holds a NaN or an infinity, else 0.

  constexpr bool operator==(const BlockCode&) const = default;
};
static_assert(sizeof(BlockCode) == 2 && alignof(BlockCode) == 1);

/// Blocks of 256 that `elements` elements touch when counted from a block's start.
constexpr size_t block_count(size_t elements) { return (elements + kBlockLanes - 1) / kBlockLanes; }

/// The code of one block of 1..256 lanes, for one rank. Need not be aligned.
BlockCode block_code(const float* source, size_t lanes);

/// The codes of consecutive blocks. `source` starts at a block boundary of the tensor; writes
/// block_count(elements) codes.
void block_codes(const float* source, size_t elements, BlockCode* codes);

/// Writes `lanes` int32 lanes, each rounded to nearest even once.
///
/// @param first_element index in the tensor of source[0].
/// @param codes         combined codes: of the block that holds first_element, and those after it.
///                      The maximum must include this rank's own, computed from the same values.
/// @param group_size    most contributions that will be added: 1..kGroupSizeMax.
/// @param payload       4 * lanes bytes at any alignment.
void encode_fixed(const float* source, size_t lanes, uint64_t first_element, const BlockCode* codes,
                  uint32_t group_size, std::byte* payload);

/// Reads sums of lanes that were written by encode_fixed with the same first_element, codes and
/// group_size.
///
/// @param average divides by group_size before scaling, so that an average of finite values is
///                finite; else the sum is returned, infinite where f32 cannot hold it.
void decode_fixed(const std::byte* payload, size_t lanes, uint64_t first_element,
                  const BlockCode* codes, uint32_t group_size, bool average, float* destination);

/// The most by which a finite sum can differ from the exact one, before the rounding of the result
/// to f32: n/(2f) of docs/numerics.md. Infinite for a block with NaN or infinity in a group of
/// 1024 or more, where the finite elements of that block decode to NaN.
double fixed_error_bound(BlockCode code, uint32_t group_size);

}  // namespace sumcast::numeric
