#include "numeric/stream_copy.h"

#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace sumcast::numeric {

#if defined(__SSE2__)

void stream_copy(std::byte* to, const std::byte* from, size_t bytes) {
  // Whole lines only: a line that is written in part would be read after all.
  const size_t head = (64 - reinterpret_cast<uintptr_t>(to) % 64) % 64;
  if (bytes < head + 64) {
    std::memcpy(to, from, bytes);
    return;
  }
  std::memcpy(to, from, head);
  size_t at = head;
  for (; at + 64 <= bytes; at += 64) {
    for (size_t part = 0; part < 64; part += 16) {
      const __m128i value = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + at + part));
      _mm_stream_si128(reinterpret_cast<__m128i*>(to + at + part), value);
    }
  }
  std::memcpy(to + at, from + at, bytes - at);
}

void stream_fence() { _mm_sfence(); }

#else

void stream_copy(std::byte* to, const std::byte* from, size_t bytes) {
  std::memcpy(to, from, bytes);
}

void stream_fence() {}

#endif

}  // namespace sumcast::numeric
