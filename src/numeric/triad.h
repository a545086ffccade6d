// The yardstick of memory bandwidth: what a fold is compared with.
//
// A fold of two sources reads two streams and writes one, exactly as STREAM's triad does, so the
// ratio of their rates says how close the fold is to what one core can move. The caller (the
// bench) holds the clock; this room has none.
#pragma once

#include <cstddef>

namespace sumcast::numeric {

/// out[i] = a[i] + scale * b[i] for `lanes` lanes, with ordinary stores, on the best SIMD target.
/// Moves 12 bytes a lane (16 with the read for ownership of `out`). Pointers need not be aligned.
void triad(const float* a, const float* b, float scale, float* out, size_t lanes);

}  // namespace sumcast::numeric
