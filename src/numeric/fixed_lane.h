// Inside the room: the arithmetic of fixed point, one lane at a time (docs/numerics.md N14-N18).
//
// All scales are powers of two: scaling is exact, so the only rounding is the one to an integer,
// and every target agrees. A lane of a block without NaN and infinity is
//     q = rint(x * 2^(s-m)),   |x| < 2^m,   m = E - 126.
// A lane of a block with them is, for w = bits of n and V = 32 - 2w,
//     [ w bits: ranks with -Inf or NaN | w bits: ranks with +Inf or NaN | V bits: sum of q ]
// so that plain additions count and add at once. A NaN counts as both infinities, which is what
// their sum would be; n < 2^w, so no counter runs over.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "numeric/element_traits.h"
#include "numeric/fixed.h"

namespace sumcast::numeric {

/// Groups of this size and more leave a flagged block no bits for values worth having.
inline constexpr uint32_t kFlaggedValuesGroupEnd = 1024;

/// s of a block without NaN and infinity. For n <= 128, n * 2^s <= 2^31 is enough: the largest
/// |x| is 2^m * (1 - 2^-24), so |q| <= 2^s - 1. Above, q may round up to 2^s, so n * 2^s < 2^31.
constexpr int plain_scale_log2(uint32_t group_size) {
  return 31 - std::bit_width(group_size > 128 ? group_size : group_size - 1);
}

constexpr int counter_bits(uint32_t group_size) { return std::bit_width(group_size); }

constexpr int value_bits(uint32_t group_size) { return 32 - 2 * counter_bits(group_size); }

/// s of a block with NaN or infinity: n * 2^s < 2^(V-1), for groups below kFlaggedValuesGroupEnd.
constexpr int flagged_scale_log2(uint32_t group_size) {
  return value_bits(group_size) - 1 - counter_bits(group_size);
}

/// 2^exponent, -126..127.
constexpr float power_of_two(int exponent) {
  return std::bit_cast<float>(static_cast<uint32_t>(exponent + 127) << 23);
}

/// 2^exponent as two factors, because the exponents of fixed point, -160..160, exceed an f32's.
/// Multiplying by both is exact unless the final result is below f32's normal range (then it is
/// rounded once when decoding, and is a q of 0 when encoding) or overflows.
struct Scaling {
  float first = 1.0f;
  float second = 1.0f;

  constexpr explicit Scaling(int exponent)
      : first(power_of_two(exponent / 2)), second(power_of_two(exponent - exponent / 2)) {}
  constexpr float apply(float value) const { return value * first * second; }
};

/// m: every |x| of the block is below 2^m.
constexpr int block_exponent(BlockCode code) { return code.exponent - 126; }

/// `value`, already scaled, as an integer. The clamp never acts on what encode_fixed may be given;
/// it keeps the conversion defined if a caller breaks the rule.
inline int32_t to_nearest_integer(float value) {
  if (!(value > -2147483648.0f)) return INT32_MIN;
  if (value >= 2147483648.0f) return INT32_MAX;
  return static_cast<int32_t>(std::nearbyint(value));
}

inline int32_t plain_lane(float value, BlockCode code, uint32_t group_size) {
  const Scaling scaling(plain_scale_log2(group_size) - block_exponent(code));
  return to_nearest_integer(scaling.apply(value));
}

/// How a sum of lanes becomes an f32: one rounding for a sum, a second one for an average.
struct Unscaling {
  Scaling scaling;
  float divisor = 1.0f;
  /// An average lies below 2^m, but above 128 ranks the largest values may have rounded up to it,
  /// which for m = 128 is no f32: back to the largest float below. Never acts on a sum.
  float limit = std::bit_cast<float>(kMaxFiniteBitsF32);

  /// For lanes that were scaled by 2^(scale_log2 - m).
  Unscaling(BlockCode code, int scale_log2, uint32_t group_size, bool average)
      : scaling(block_exponent(code) - scale_log2) {
    if (!average) return;
    divisor = static_cast<float>(group_size);
    limit = 0x1.FFFFFEp-1f * power_of_two(scale_log2);
  }
  float apply(int32_t sum) const {
    const float mean = static_cast<float>(sum) / divisor;
    const float limited = mean > limit ? limit : (mean < -limit ? -limit : mean);
    return scaling.apply(limited);
  }
};

inline float plain_value(int32_t sum, BlockCode code, uint32_t group_size, bool average) {
  return Unscaling(code, plain_scale_log2(group_size), group_size, average).apply(sum);
}

inline int32_t flagged_lane(float value, BlockCode code, uint32_t group_size) {
  const uint32_t plus = 1u << value_bits(group_size);
  const uint32_t minus = plus << counter_bits(group_size);
  if (value != value) return static_cast<int32_t>(plus + minus);
  if (std::isinf(value)) return static_cast<int32_t>(value > 0 ? plus : minus);
  if (group_size >= kFlaggedValuesGroupEnd) return 0;
  const Scaling scaling(flagged_scale_log2(group_size) - block_exponent(code));
  return to_nearest_integer(scaling.apply(value));
}

inline float flagged_value(int32_t sum, BlockCode code, uint32_t group_size, bool average) {
  const float nan = std::bit_cast<float>(kCanonicalNanF32);
  const bool has_values = group_size < kFlaggedValuesGroupEnd;
  // The low V bits, sign extended, are the sum of the values; a negative one has borrowed from the
  // counters, which subtracting it repays.
  const int unused = 32 - value_bits(group_size);
  const uint32_t low = static_cast<uint32_t>(sum) << (has_values ? unused : 0);
  const int32_t value = has_values ? static_cast<int32_t>(low) >> unused : 0;
  const uint32_t counters =
      (static_cast<uint32_t>(sum) - static_cast<uint32_t>(value)) >> value_bits(group_size);
  const uint32_t plus = counters & ((1u << counter_bits(group_size)) - 1u);
  const uint32_t minus = counters >> counter_bits(group_size);
  if (plus != 0 && minus != 0) return nan;
  if (plus != 0) return std::bit_cast<float>(kInfinityBitsF32);
  if (minus != 0) return -std::bit_cast<float>(kInfinityBitsF32);
  if (!has_values) return nan;
  return Unscaling(code, flagged_scale_log2(group_size), group_size, average).apply(value);
}

}  // namespace sumcast::numeric
