// Inside the room: layout, reserved codes and scale of an int8 block (described in codec.h).
//
// The trick is the scale. Truncated to 17 significant bits, its product with a 7-bit code fits
// the 24 bits of an f32: decoding is exact, and a fused multiply-add cannot change a sum. It costs
// 2^-16 of the scale, against a rounding error of half the scale.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "numeric/codec.h"
#include "numeric/element_traits.h"

namespace sumcast::numeric {

inline constexpr size_t kInt8ScaleBytes = 4;
inline constexpr size_t kInt8BlockBytes = kInt8ScaleBytes + kBlockLanes;
inline constexpr int32_t kInt8Finite = 126;  ///< Largest code of a finite lane.
inline constexpr int32_t kInt8PlusInfinity = 127;
inline constexpr int32_t kInt8MinusInfinity = -127;
inline constexpr int32_t kInt8Nan = -128;

/// The bits of a scale that are looked at: no sign, 17 significant bits. Encoders write no others;
/// masking what comes off the wire keeps products exact whatever a peer sends.
inline constexpr uint32_t kInt8ScaleMask = 0x7FFFFF80;

/// Lanes of the block that starts at lane `first` of a chunk.
inline size_t int8_block_lanes(size_t lanes, size_t first) {
  return std::min(kBlockLanes, lanes - first);
}

/// Where the block that starts at lane `first` (a multiple of 256) begins.
inline size_t int8_block_offset(size_t first) { return first / kBlockLanes * kInt8BlockBytes; }

/// The scale for a block whose largest finite magnitude has the bits `max_finite_bits`: 0 for an
/// all-zero block, else such that magnitude / scale rounds to at most 126.
inline float int8_scale(uint32_t max_finite_bits) {
  if (max_finite_bits == 0) return 0.0f;
  const float exact = std::bit_cast<float>(max_finite_bits) / static_cast<float>(kInt8Finite);
  uint32_t bits = std::bit_cast<uint32_t>(exact);
  // Denormal scales have few bits: there truncation would be coarse (or give 0), so round up. For
  // normal ones rounding up could make 126 * scale overflow, and truncation yields 126.002 at
  // most, which rounds to 126.
  if (bits < 0x00800000u) bits += 0x80u;
  return std::bit_cast<float>(bits & kInt8ScaleMask);
}

inline float int8_scale_from_wire(const std::byte* block) {
  return std::bit_cast<float>(load_unaligned<uint32_t>(block) & kInt8ScaleMask);
}

}  // namespace sumcast::numeric
