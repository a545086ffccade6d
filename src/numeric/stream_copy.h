// Copying lanes into a tensor that is too large to stay in the cache.
//
// An ordinary store to a line that is not cached first reads that line, and a burst of such stores
// fills the store buffer: whatever comes next in the program waits for memory. Streaming stores go
// past the cache and read nothing. They pay where the tensor will have left the cache anyway before
// somebody reads it, and hurt where it would not.
#pragma once

#include <cstddef>

namespace sumcast::numeric {

/// From this size on a tensor is not expected to stay in a core's cache.
inline constexpr size_t kStreamBytesMin = size_t{2} << 20;

/// Copies `bytes` bytes past the cache where the CPU can; any alignment; the ranges do not overlap.
/// stream_fence() must come before another thread is told that the bytes are there.
void stream_copy(std::byte* to, const std::byte* from, size_t bytes);

/// Makes everything that stream_copy() wrote visible to other threads before what follows.
void stream_fence();

}  // namespace sumcast::numeric
