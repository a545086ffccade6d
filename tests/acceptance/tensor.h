// Tensors with a different value in every element, and what their reduction must be, to the bit.
//
// The reference is written from docs/numerics.md in the plainest way and shares no code with
// numeric/: one element at a time, the compiler's own float types. Constant inputs are avoided
// throughout: a collective that mixes elements up would pass with them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/element.h"

namespace sumcast::acceptance {

/// What element values are like.
enum class Values : uint8_t {
  kAny,    ///< Sums and products of floats round.
  kExact,  ///< They do not, in any order, for up to 8 ranks: for algorithms that reassociate.
};

/// `count` elements of rank `rank`, starting with element `first` of the tensor; little endian.
/// The same arguments give the same bytes in every process.
/// @param reduction  only shapes kExact values: products get powers of two.
void fill_tensor(ElementType type, Values values, Reduction reduction, uint64_t seed, uint32_t rank,
                 uint64_t first, uint64_t count, std::byte* out);

/// The same as a vector.
std::vector<std::byte> make_tensor(ElementType type, Values values, Reduction reduction,
                                   uint64_t seed, uint32_t rank, uint64_t count);

/// docs/numerics.md N1 to N9: the sources folded from the left, element by element.
/// @pre reduction_applies(type, reduction) or kCopy with one source; all sources equally long.
std::vector<std::byte> reduce_reference(ElementType type, Reduction reduction,
                                        std::span<const std::vector<std::byte>> sources);

/// What an all-reduce of make_tensor() over `world` ranks must give.
std::vector<std::byte> all_reduce_reference(ElementType type, Values values, Reduction reduction,
                                            uint64_t seed, uint32_t world, uint64_t count);

/// Whether ranks of one host share memory: with SUMCAST_TEST_SHARE=1 in the environment. Otherwise
/// each is a host of its own, and what is tested are datagrams.
bool ranks_share_hosts();

/// SHA-256 in hex.
std::string sha256(std::span<const std::byte> bytes);

}  // namespace sumcast::acceptance
