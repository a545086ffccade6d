// Inside the room: what fixed_kernels.cc compiles for all SIMD targets. One call is one block's
// share of a chunk.
#pragma once

#include <cstddef>
#include <cstdint>

#include "numeric/fixed_lane.h"

namespace sumcast::numeric {

/// Lanes of a block without NaN and infinity: rint(source[i] * scaling).
void encode_plain(const float* source, size_t lanes, Scaling scaling, std::byte* payload);

/// The sums of such lanes: unscaling.apply(lane).
void decode_plain(const std::byte* payload, size_t lanes, const Unscaling& unscaling,
                  float* destination);

}  // namespace sumcast::numeric
