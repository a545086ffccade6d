// Loads and stores of wire integers. Headers are big endian (what a switch parses); this room is
// the only place that knows.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace sumcast::wire {

template <typename Integer>
constexpr Integer swap_to_big(Integer value) {
  if constexpr (std::endian::native == std::endian::big || sizeof(Integer) == 1) {
    return value;
  } else if constexpr (sizeof(Integer) == 2) {
    return static_cast<Integer>(__builtin_bswap16(value));
  } else if constexpr (sizeof(Integer) == 4) {
    return static_cast<Integer>(__builtin_bswap32(value));
  } else {
    return static_cast<Integer>(__builtin_bswap64(value));
  }
}

/// Reads a big-endian integer; `at` needs sizeof(Integer) bytes, any alignment.
template <typename Integer>
Integer load_big(const std::byte* at) {
  Integer value;
  std::memcpy(&value, at, sizeof value);
  return swap_to_big(value);
}

/// Writes a big-endian integer; `at` needs sizeof(Integer) bytes, any alignment.
template <typename Integer>
void store_big(std::byte* at, Integer value) {
  value = swap_to_big(value);
  std::memcpy(at, &value, sizeof value);
}

}  // namespace sumcast::wire
