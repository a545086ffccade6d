// f32 to fixed point and back as a switch does it that has no floats: with lookup tables.
//
// A switch can subtract small integers, look up a table, shift by a constant that the matched entry
// names, negate and add. That is enough:
//
//   in    d = key's exponent - value's exponent     one subtraction, 9 bits
//         table[d] -> out of range | shift left s | shift right s, rounded | zero        256
//         entries the 24-bit significand is shifted, and negated if the value is
//   add   int32 + int32 in the register, with a sticky flag if it overflowed
//   out   leading-one match on the magnitude (32 ternary entries) -> shift to 24 bits, exponent
//
// Every hot key has its own exponent E (8 bits, like an f32's): its values are below 2^(E-126) in
// magnitude. With h = ceil(log2(workers x rounds)) bits of headroom a value is the integer
//
//   q = round(x 2^(31-h-m)),   m = E - 126,   ties away from zero
//
// so as many values as announced add up without overflow. Values that do not fit are not clipped:
// they are *refused*, and the worker sends the key to a server for that round. So are NaN, Inf and
// denormals. The arithmetic and its bounds are in docs/numerics.md, N19 to N22.
//
// A key's exponent shares nothing with its neighbours', which is the point: one scale for keys of
// different size loses the small ones.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace sumcast::numeric {

/// Why a row of values cannot be summed on the switch; ordered, a row has its worst value's.
enum class LaneFit : uint8_t {
  kFits = 0,
  kDenormal = 1,   ///< |x| < 2^-126, not zero.
  kTooLarge = 2,   ///< |x| >= 2^(E-126), or rounded up to it.
  kNotFinite = 3,  ///< NaN or infinite.
};

/// Exponents of keys. Below the least, sums could leave f32's normal range.
inline constexpr uint8_t kKeyExponentMin = 31;
inline constexpr uint8_t kKeyExponentMax = 254;

/// Most contributions to one sum: workers x rounds held.
inline constexpr uint32_t kContributionsMax = 1u << 16;

/// The least exponent E, kKeyExponentMin..kKeyExponentMax, with |x| < 2^(E-126) for all |x| up to
/// 2^slack_bits times `largest` - a key's running maximum, finite - if there is one. Each slack bit
/// costs one bit of every value and lets values double once before the key is refused.
uint8_t key_exponent(float largest, int slack_bits);

/// The tables of one job. Pure; built once when the number of contributions is known.
class FloatTable {
 public:
  /// `contributions` in 1..kContributionsMax: most values that are added to one sum.
  explicit FloatTable(uint32_t contributions);

  /// h.
  int headroom_bits() const { return headroom_bits_; }

  /// Turns a row into lanes for a slot with `exponent` (kKeyExponentMin..kKeyExponentMax).
  /// @param lanes as many as `values`; only complete if the answer is kFits, else not to be sent.
  LaneFit to_lanes(std::span<const float> values, uint8_t exponent, std::span<int32_t> lanes) const;

  /// Reads sums of lanes. Each is within contributions x half a unit of the exact sum, and rounded
  /// to f32 once (ties away from zero). Beyond f32 it is infinite.
  void to_floats(std::span<const int32_t> sums, uint8_t exponent, std::span<float> values) const;

  /// What rounding on the way in can do to a sum: contributions x 2^(m-31+h) / 2.
  double error_bound(uint8_t exponent) const;

 private:
  enum class Action : uint8_t { kZero, kLeft, kRight };
  struct ShiftEntry {
    Action action = Action::kZero;
    uint8_t bits = 0;
  };
  struct LeadingOneEntry {
    uint32_t value = 0;  // The magnitude matches if (magnitude & mask) == value.
    uint32_t mask = 0;
    Action action = Action::kZero;
    uint8_t bits = 0;
  };

  int headroom_bits_;
  std::array<ShiftEntry, 256> shift_of_distance_;  // By E - e; negative never gets here.
  std::array<LeadingOneEntry, 32> leading_one_;    // The highest one first.
};

/// Adds `lanes` to `sums` as the register does, wrapping.
/// @return true if a sum overflowed; the caller keeps that with the slot until it is freed.
bool add_lanes(std::span<const int32_t> lanes, std::span<int32_t> sums);

}  // namespace sumcast::numeric
