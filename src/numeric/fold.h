// The canonical sum: a left fold over contributions, in the order in which they are given.
//
// This is the addition that the whole system exists for. The caller decides the order (rank order,
// design rule 5) and when it happens; here nothing is known of ranks, packets or slots. One pass:
// each source is read once and the result written once, partial sums stay in registers. The rules
// for every type and reduction are docs/numerics.md, N1 to N9.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/element.h"

namespace sumcast::numeric {

/// Largest group that any function of this room takes.
inline constexpr uint32_t kGroupSizeMax = 65535;

/// out[i] = sources[0][i] o sources[1][i] o ... o sources[source_count - 1][i], from the left.
///
/// @param sources       source_count >= 1 pointers to `lanes` elements of `type`, little endian,
///                      at any alignment.
/// @param group_size    what kAvg divides by, once, in the accumulator's type, before rounding:
///                      1..kGroupSizeMax. It may differ from source_count, because the ranks of a
///                      host are folded before hosts are. Not looked at by other reductions.
/// @param out           `lanes` elements at any alignment. It may be one of the sources exactly; it
///                      must not overlap one partially.
/// @pre reduction_applies(type, reduction); source_count == 1 for kCopy.
/// @cost O(source_count * lanes), no allocation.
void fold(ElementType type, Reduction reduction, const std::byte* const* sources,
          size_t source_count, size_t lanes, uint32_t group_size, std::byte* out);

}  // namespace sumcast::numeric
