// One element at a time: unaligned access, the 16-bit float types, the canonical NaN.
//
// Everything here is plain C++ on single values. The scalar twins are written with it, and tests
// take it as the definition of the 16-bit conversions: it works on integers and knows none of the
// tricks of the SIMD kernels.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace sumcast::numeric {

/// The one NaN that leaves this room, whatever NaN came in (docs/numerics.md N3).
inline constexpr uint16_t kCanonicalNanF16 = 0x7E00;
inline constexpr uint16_t kCanonicalNanBF16 = 0x7FC0;
inline constexpr uint32_t kCanonicalNanF32 = 0x7FC00000;
inline constexpr uint64_t kCanonicalNanF64 = 0x7FF8000000000000;

/// Bit patterns of |x| up to here are finite, those above up to 0x7F800000 infinite, the rest NaN.
inline constexpr uint32_t kMaxFiniteBitsF32 = 0x7F7FFFFF;
inline constexpr uint32_t kInfinityBitsF32 = 0x7F800000;
inline constexpr uint32_t kMagnitudeMaskF32 = 0x7FFFFFFF;

/// Reads a T at `place`, which need not be aligned.
template <typename T>
T load_unaligned(const std::byte* place) {
  T value;
  std::memcpy(&value, place, sizeof value);
  return value;
}

template <typename T>
void store_unaligned(std::byte* place, T value) {
  std::memcpy(place, &value, sizeof value);
}

constexpr float canonical(float value) {
  return value == value ? value : std::bit_cast<float>(kCanonicalNanF32);
}

constexpr double canonical(double value) {
  return value == value ? value : std::bit_cast<double>(kCanonicalNanF64);
}

/// value / 2^shift, to nearest, ties to even. `value` < 2^31.
constexpr uint32_t shift_right_to_nearest_even(uint32_t value, uint32_t shift) {
  if (shift == 0) return value;
  if (shift > 31) return 0;
  const uint32_t half = 1u << (shift - 1);
  const uint32_t odd = (value >> shift) & 1u;
  return (value + half - 1u + odd) >> shift;
}

constexpr float f32_from_bf16(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

/// To nearest even; overflow gives infinity, denormals are kept, NaN becomes canonical.
constexpr uint16_t bf16_from_f32(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t magnitude = bits & kMagnitudeMaskF32;
  if (magnitude > kInfinityBitsF32) return kCanonicalNanBF16;
  const uint32_t sign = (bits >> 16) & 0x8000u;
  return static_cast<uint16_t>(sign | shift_right_to_nearest_even(magnitude, 16));
}

constexpr float f32_from_f16(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  const uint32_t exponent = (bits >> 10) & 0x1Fu;
  const uint32_t mantissa = bits & 0x3FFu;
  if (exponent == 0x1F) return std::bit_cast<float>(sign | 0x7F800000u | mantissa << 13);
  if (exponent == 0) {  // Zero or denormal: mantissa * 2^-24, exact in f32.
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
  }
  return std::bit_cast<float>(sign | (exponent + 112u) << 23 | mantissa << 13);
}

/// To nearest even; 65520 and more gives infinity, denormals are kept, NaN becomes canonical.
constexpr uint16_t f16_from_f32(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & kMagnitudeMaskF32;
  if (magnitude > kInfinityBitsF32) return kCanonicalNanF16;
  const uint32_t exponent = magnitude >> 23;
  const uint32_t significand = (magnitude & 0x7FFFFFu) | 0x800000u;
  uint32_t rounded = 0;
  if (exponent >= 143) {  // 2^16 and more.
    rounded = 0x7C00;
  } else if (exponent >= 113) {  // Normal; a carry runs into the exponent, up to infinity.
    rounded = shift_right_to_nearest_even(magnitude - (112u << 23), 13);
  } else if (exponent > 0) {  // In units of 2^-24, the smallest f16.
    rounded = shift_right_to_nearest_even(significand, 126u - exponent);
  }
  return static_cast<uint16_t>(sign | rounded);
}

/// The smaller value: NaN if either is NaN, and -0 before +0.
template <typename Float>
Float float_min(Float a, Float b) {
  if (a != a) return a;
  if (b != b) return b;
  if (a == b) return std::signbit(a) ? a : b;
  return a < b ? a : b;
}

/// The larger value: NaN if either is NaN, and +0 after -0.
template <typename Float>
Float float_max(Float a, Float b) {
  if (a != a) return a;
  if (b != b) return b;
  if (a == b) return std::signbit(a) ? b : a;
  return a > b ? a : b;
}

}  // namespace sumcast::numeric
