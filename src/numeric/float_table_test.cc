#include "numeric/float_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "base/prng.h"

namespace sumcast::numeric {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

float from_parts(uint32_t sign, int exponent, uint32_t mantissa) {
  return std::bit_cast<float>(sign << 31 | static_cast<uint32_t>(exponent) << 23 | mantissa);
}

LaneFit fit_of(const FloatTable& table, float value, uint8_t exponent) {
  int32_t lane = 0;
  return table.to_lanes({&value, 1}, exponent, {&lane, 1});
}

int32_t lane_of(const FloatTable& table, float value, uint8_t exponent) {
  int32_t lane = 0;
  EXPECT_EQ(table.to_lanes({&value, 1}, exponent, {&lane, 1}), LaneFit::kFits) << value;
  return lane;
}

float float_of(const FloatTable& table, int32_t sum, uint8_t exponent) {
  float value = 0;
  table.to_floats({&sum, 1}, exponent, {&value, 1});
  return value;
}

/// `value` rounded to 24 significant bits, ties away from zero; infinite beyond f32.
float rounded_to_float(double value) {
  if (value == 0) return 0;
  int exponent = 0;
  const double fraction = std::frexp(value, &exponent);  // [0.5, 1)
  const double rounded = std::ldexp(std::round(std::ldexp(fraction, 24)), exponent - 24);
  if (std::abs(rounded) > static_cast<double>(std::numeric_limits<float>::max())) {
    return value > 0 ? kInfinity : -kInfinity;
  }
  return static_cast<float>(rounded);
}

const uint32_t kMantissas[] = {0, 1, 0x200000, 0x3FFFFF, 0x400000, 0x400001, 0x7FFFFE, 0x7FFFFF};

TEST(FloatTable, LanesAreTheRoundedValuesForEveryExponent) {  // N20
  for (const uint32_t contributions : {1u, 8u, 128u, 129u, 65'536u}) {
    const FloatTable table(contributions);
    const int headroom = table.headroom_bits();
    for (int key = kKeyExponentMin; key <= kKeyExponentMax; ++key) {
      const auto exponent = static_cast<uint8_t>(key);
      for (int own = 1; own <= key; ++own) {
        for (const uint32_t mantissa : kMantissas) {
          const float value = from_parts(0, own, mantissa);
          const double exact = std::round(std::ldexp(double{value}, 31 - headroom - (key - 126)));
          if (exact >= std::ldexp(1.0, 31 - headroom)) {
            ASSERT_EQ(fit_of(table, value, exponent), LaneFit::kTooLarge);
            continue;
          }
          ASSERT_EQ(lane_of(table, value, exponent), exact) << value << " at " << key;
          ASSERT_EQ(lane_of(table, -value, exponent), -exact);
        }
      }
    }
  }
}

TEST(FloatTable, SumsAreReadWithOneRoundingForEveryExponent) {  // N21
  Prng prng(1);
  std::vector<int32_t> sums = {0, 1, -1, INT32_MAX, INT32_MIN, INT32_MIN + 1};
  for (int bit = 0; bit < 31; ++bit) {
    for (int i = 0; i < 4; ++i) {
      const auto low = static_cast<int32_t>(prng.below(uint64_t{1} << bit));
      sums.push_back((1 << bit) | low);
      sums.push_back(-((1 << bit) | low));
    }
    if (bit >= 24) sums.push_back((1 << bit) + (1 << (bit - 24)));  // A tie.
    if (bit >= 24) sums.push_back(INT32_MAX >> (30 - bit));         // Rounds up to a power of two.
  }
  for (const uint32_t contributions : {1u, 8u, 65'536u}) {
    const FloatTable table(contributions);
    for (int key = kKeyExponentMin; key <= kKeyExponentMax; ++key) {
      const int scale = key - 126 - 31 + table.headroom_bits();
      for (const int32_t sum : sums) {
        const float expected = rounded_to_float(std::ldexp(double{1} * sum, scale));
        ASSERT_EQ(float_of(table, sum, static_cast<uint8_t>(key)), expected) << sum << " " << key;
      }
    }
  }
}

TEST(FloatTable, RefusesWhatDoesNotFit) {  // N19
  const FloatTable table(8);
  const float denormal = std::numeric_limits<float>::denorm_min();
  EXPECT_EQ(fit_of(table, std::numeric_limits<float>::quiet_NaN(), 200), LaneFit::kNotFinite);
  EXPECT_EQ(fit_of(table, -std::numeric_limits<float>::signaling_NaN(), 200), LaneFit::kNotFinite);
  EXPECT_EQ(fit_of(table, kInfinity, kKeyExponentMax), LaneFit::kNotFinite);
  EXPECT_EQ(fit_of(table, -kInfinity, kKeyExponentMax), LaneFit::kNotFinite);
  EXPECT_EQ(fit_of(table, denormal, kKeyExponentMin), LaneFit::kDenormal);
  EXPECT_EQ(fit_of(table, from_parts(1, 0, 0x7FFFFF), kKeyExponentMin), LaneFit::kDenormal);
  EXPECT_EQ(fit_of(table, 2.0f, 127), LaneFit::kTooLarge);  // 127: below 2.
  EXPECT_EQ(fit_of(table, -2.0f, 127), LaneFit::kTooLarge);
  EXPECT_EQ(fit_of(table, std::nextafter(2.0f, 0.0f), 127), LaneFit::kFits);
  EXPECT_EQ(lane_of(table, 0.0f, 127), 0);
  EXPECT_EQ(lane_of(table, -0.0f, 127), 0);
  EXPECT_EQ(fit_of(table, std::numeric_limits<float>::max(), kKeyExponentMax), LaneFit::kFits);
}

TEST(FloatTable, ARowHasItsWorstValuesFit) {
  const FloatTable table(8);
  std::vector<int32_t> lanes(3);
  const auto fit = [&](std::vector<float> row) { return table.to_lanes(row, 127, lanes); };
  EXPECT_EQ(fit({1.0f, 0.5f, -1.5f}), LaneFit::kFits);
  EXPECT_EQ(fit({1.0f, 1e-40f, 0.5f}), LaneFit::kDenormal);
  EXPECT_EQ(fit({3.0f, 1e-40f, 0.5f}), LaneFit::kTooLarge);
  EXPECT_EQ(fit({3.0f, 1e-40f, kInfinity}), LaneFit::kNotFinite);
}

TEST(FloatTable, AsManyValuesAsAnnouncedNeverOverflow) {  // N20
  for (const uint32_t contributions : {1u, 2u, 3u, 8u, 100u, 128u, 129u, 256u, 1000u, 65'536u}) {
    const FloatTable table(contributions);
    float largest = std::nextafter(2.0f, 0.0f);
    while (fit_of(table, largest, 127) != LaneFit::kFits) largest = std::nextafter(largest, 0.0f);
    const int32_t lane = lane_of(table, largest, 127);
    for (const int32_t addend : {lane, -lane}) {
      int32_t sum = 0;
      for (uint32_t i = 0; i < contributions; ++i) {
        ASSERT_FALSE(add_lanes({&addend, 1}, {&sum, 1})) << contributions << ", " << i;
      }
    }
  }
}

TEST(FloatTable, AnOverflowIsSeen) {
  const FloatTable table(8);
  std::vector<int32_t> sums = {5, 0, 0};
  bool overflowed = false;
  std::vector<int32_t> lanes(3);
  const std::vector<float> row = {0.0f, -1.9f, 1.0f};
  ASSERT_EQ(table.to_lanes(row, 127, lanes), LaneFit::kFits);
  for (int i = 0; i < 8; ++i) overflowed |= add_lanes(lanes, sums);
  EXPECT_FALSE(overflowed);
  overflowed |= add_lanes(lanes, sums);  // One more than announced.
  EXPECT_TRUE(overflowed);
  std::vector<int32_t> top = {INT32_MAX}, one = {1}, bottom = {INT32_MIN}, minus_one = {-1};
  EXPECT_TRUE(add_lanes(one, top));
  EXPECT_EQ(top[0], INT32_MIN);
  EXPECT_TRUE(add_lanes(minus_one, bottom));
  EXPECT_FALSE(add_lanes(minus_one, std::span(one)));
}

TEST(FloatTable, ValuesOfTheKeysOwnSizeSurviveUnchanged) {  // N22
  // Seven bits less headroom are to spare: so much smaller than its bound may a value be.
  const FloatTable table(16);
  Prng prng(2);
  for (int i = 0; i < 100'000; ++i) {
    const int own = 31 + static_cast<int>(prng.below(200));
    const float value = from_parts(prng.next_u32() & 1, own, prng.next_u32() & 0x7FFFFF);
    const auto exponent = static_cast<uint8_t>(own + prng.below(4));
    ASSERT_EQ(float_of(table, lane_of(table, value, exponent), exponent), value);
  }
}

TEST(FloatTable, SumsAreWithinTheBoundInAnyOrder) {  // N22
  Prng prng(3);
  for (const uint32_t contributions : {2u, 8u, 32u, 200u}) {
    const FloatTable table(contributions);
    for (int trial = 0; trial < 2000; ++trial) {
      const auto exponent = static_cast<uint8_t>(60 + prng.below(140));
      std::vector<int32_t> lanes;
      double exact = 0;
      for (uint32_t i = 0; i < contributions; ++i) {
        const int own = exponent - 1 - static_cast<int>(prng.below(30));
        const float value = from_parts(prng.next_u32() & 1, own, prng.next_u32() & 0x7FFFFF);
        exact += double{value};
        lanes.push_back(lane_of(table, value, exponent));
      }
      int32_t forward = 0, backward = 0;
      for (size_t i = 0; i < lanes.size(); ++i) {
        ASSERT_FALSE(add_lanes({&lanes[i], 1}, {&forward, 1}));
        ASSERT_FALSE(add_lanes({&lanes[lanes.size() - 1 - i], 1}, {&backward, 1}));
      }
      ASSERT_EQ(forward, backward);
      const double error = std::abs(double{float_of(table, forward, exponent)} - exact);
      ASSERT_LE(error, table.error_bound(exponent) + std::ldexp(std::abs(exact), -24) * 1.0001);
    }
  }
}

TEST(KeyExponent, CoversTheRunningMaximumAndItsSlack) {
  EXPECT_EQ(key_exponent(1.0f, 0), 127);
  EXPECT_EQ(key_exponent(1.99f, 0), 127);
  EXPECT_EQ(key_exponent(-2.0f, 0), 128);
  EXPECT_EQ(key_exponent(1.0f, 2), 129);
  EXPECT_EQ(key_exponent(0.0f, 0), kKeyExponentMin);
  EXPECT_EQ(key_exponent(std::numeric_limits<float>::max(), 3), kKeyExponentMax);
  const FloatTable table(8);
  for (const float largest : {1e-20f, 0.3f, 1.0f, 7e5f}) {
    EXPECT_EQ(fit_of(table, largest * 1.99f, key_exponent(largest, 1)), LaneFit::kFits);
    EXPECT_EQ(fit_of(table, largest * 2.01f, key_exponent(largest, 0)), LaneFit::kTooLarge);
  }
}

}  // namespace
}  // namespace sumcast::numeric
