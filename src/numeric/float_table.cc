#include "numeric/float_table.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "base/assert.h"

namespace sumcast::numeric {
namespace {

constexpr uint32_t kSignBit = 1u << 31;
constexpr uint32_t kMantissaBits = 23;
constexpr uint32_t kMantissaMask = (1u << kMantissaBits) - 1;
constexpr uint32_t kImplicitOne = 1u << kMantissaBits;
constexpr int kExponentNotFinite = 255;

int exponent_of(uint32_t bits) { return static_cast<int>(bits >> kMantissaBits & 0xFF); }

/// `value` / 2^bits to the nearest integer, halves up: an addition and a constant shift.
uint32_t shift_right_rounded(uint32_t value, uint32_t bits) {
  return bits == 0 ? value : (value + (1u << (bits - 1))) >> bits;
}

}  // namespace

uint8_t key_exponent(float largest, int slack_bits) {
  SUMCAST_ASSERT(slack_bits >= 0);
  const int exponent = exponent_of(std::bit_cast<uint32_t>(largest));
  SUMCAST_ASSERT(exponent < kExponentNotFinite);
  return static_cast<uint8_t>(
      std::clamp(exponent + slack_bits, int{kKeyExponentMin}, int{kKeyExponentMax}));
}

FloatTable::FloatTable(uint32_t contributions)
    : headroom_bits_(contributions <= 1 ? 0 : std::bit_width(contributions - 1)) {
  SUMCAST_ASSERT(contributions >= 1);
  SUMCAST_ASSERT(contributions <= kContributionsMax);
  // A value is significand x 2^(e-150), a unit of the lane 2^(E-126-31+h): what remains is a shift
  // by 7 - h - (E - e).
  for (int distance = 0; distance < 256; ++distance) {
    const int left = 7 - headroom_bits_ - distance;
    ShiftEntry& entry = shift_of_distance_[distance];
    if (left >= 0) {
      entry = {Action::kLeft, static_cast<uint8_t>(left)};
    } else if (-left <= 24) {  // Beyond, even the largest significand is less than a half.
      entry = {Action::kRight, static_cast<uint8_t>(-left)};
    }
  }
  for (int place = 31; place >= 0; --place) {
    const uint32_t one = 1u << place;
    LeadingOneEntry& entry = leading_one_[31 - place];
    entry.value = one;
    entry.mask = ~(one - 1);
    const int right = place - static_cast<int>(kMantissaBits);
    entry.action = right > 0 ? Action::kRight : Action::kLeft;
    entry.bits = static_cast<uint8_t>(std::abs(right));
  }
}

LaneFit FloatTable::to_lanes(std::span<const float> values, uint8_t exponent,
                             std::span<int32_t> lanes) const {
  SUMCAST_ASSERT(lanes.size() == values.size());
  SUMCAST_ASSERT(exponent >= kKeyExponentMin && exponent <= kKeyExponentMax);
  LaneFit worst = LaneFit::kFits;
  // 2^(31-h) itself: what a value just below the key's bound may round up to.
  const uint32_t limit = 1u << (31 - headroom_bits_);
  for (size_t i = 0; i < values.size(); ++i) {
    const auto bits = std::bit_cast<uint32_t>(values[i]);
    const int own = exponent_of(bits);
    uint32_t magnitude = 0;
    LaneFit fit = LaneFit::kFits;
    if (own == kExponentNotFinite) {
      fit = LaneFit::kNotFinite;
    } else if (own > exponent) {
      fit = LaneFit::kTooLarge;
    } else if (own == 0) {
      fit = (bits & kMantissaMask) == 0 ? LaneFit::kFits : LaneFit::kDenormal;
    } else {
      const uint32_t significand = (bits & kMantissaMask) | kImplicitOne;
      const ShiftEntry entry = shift_of_distance_[exponent - own];
      if (entry.action == Action::kLeft) magnitude = significand << entry.bits;
      if (entry.action == Action::kRight) magnitude = shift_right_rounded(significand, entry.bits);
      if (magnitude >= limit) fit = LaneFit::kTooLarge;
    }
    worst = std::max(worst, fit);
    const uint32_t lane = (bits & kSignBit) != 0 ? 0u - magnitude : magnitude;
    lanes[i] = fit == LaneFit::kFits ? static_cast<int32_t>(lane) : 0;
  }
  return worst;
}

void FloatTable::to_floats(std::span<const int32_t> sums, uint8_t exponent,
                           std::span<float> values) const {
  SUMCAST_ASSERT(values.size() == sums.size());
  SUMCAST_ASSERT(exponent >= kKeyExponentMin && exponent <= kKeyExponentMax);
  for (size_t i = 0; i < sums.size(); ++i) {
    const auto sum = static_cast<uint32_t>(sums[i]);
    const uint32_t sign = sum & kSignBit;
    const uint32_t magnitude = sign != 0 ? 0u - sum : sum;
    if (magnitude == 0) {
      values[i] = 0.0f;
      continue;
    }
    const auto entry =
        std::find_if(leading_one_.begin(), leading_one_.end(),
                     [&](const LeadingOneEntry& e) { return (magnitude & e.mask) == e.value; });
    SUMCAST_DCHECK(entry != leading_one_.end());
    const uint32_t significand = entry->action == Action::kRight
                                     ? shift_right_rounded(magnitude, entry->bits)
                                     : magnitude << entry->bits;
    const int place = std::countr_zero(entry->value);
    // 2^place units of 2^(E-126-31+h), as a biased exponent; at least 1, as E >= 31. The implicit
    // one of the significand counts as one more, and so does a significand that rounded up to 2^24.
    const int biased = place + exponent + headroom_bits_ - 30;
    const uint32_t packed = (static_cast<uint32_t>(biased - 1) << kMantissaBits) + significand;
    const uint32_t infinity = uint32_t{kExponentNotFinite} << kMantissaBits;
    values[i] = std::bit_cast<float>(sign | std::min(packed, infinity));
  }
}

double FloatTable::error_bound(uint8_t exponent) const {
  // contributions <= 2^h, of half a unit each.
  return std::ldexp(0.5, headroom_bits_ + exponent - 126 - 31 + headroom_bits_);
}

bool add_lanes(std::span<const int32_t> lanes, std::span<int32_t> sums) {
  SUMCAST_ASSERT(sums.size() == lanes.size());
  bool overflowed = false;
  for (size_t i = 0; i < lanes.size(); ++i) {
    const auto lane = static_cast<uint32_t>(lanes[i]);
    const auto before = static_cast<uint32_t>(sums[i]);
    const uint32_t after = before + lane;
    // Both addends had the sign that the sum lacks.
    overflowed |= ((before ^ after) & (lane ^ after) & kSignBit) != 0;
    sums[i] = static_cast<int32_t>(after);
  }
  return overflowed;
}

}  // namespace sumcast::numeric
