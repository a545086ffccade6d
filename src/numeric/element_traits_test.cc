// The scalar 16-bit conversions against their definition: nearest, ties to even.
#include "numeric/element_traits.h"

#include <gtest/gtest.h>

#include "numeric/environment.h"
#include "numeric/test_support.h"

namespace sumcast::numeric {
namespace {

struct HalfType {
  const char* name;
  float (*widen)(uint16_t);
  uint16_t (*narrow)(float);
  uint16_t infinity;
  uint16_t nan;
};

constexpr HalfType kHalfTypes[] = {
    {"f16", f32_from_f16, f16_from_f32, 0x7C00, kCanonicalNanF16},
    {"bf16", f32_from_bf16, bf16_from_f32, 0x7F80, kCanonicalNanBF16},
};

TEST(HalfConversion, GivesBackEveryValueThatTheTypeHolds) {
  for (const HalfType& type : kHalfTypes) {
    for (uint32_t bits = 0; bits <= 0xFFFF; ++bits) {
      const auto half = static_cast<uint16_t>(bits);
      const bool is_nan = (half & 0x7FFF) > type.infinity;
      ASSERT_EQ(type.narrow(type.widen(half)), is_nan ? type.nan : half) << type.name << bits;
    }
  }
}

// Every pair of neighbours: their midpoint (exact in f32) goes to the even one, and the floats
// just beside the midpoint to the nearer one. The neighbour of the largest value is "infinity",
// whose place on the number line is one step further.
TEST(HalfConversion, RoundsToNearestAndTiesToEven) {
  for (const HalfType& type : kHalfTypes) {
    for (uint16_t low = 0; low < type.infinity; ++low) {
      const auto high = static_cast<uint16_t>(low + 1);
      const double below = type.widen(low);
      const double above = high == type.infinity
                               ? 2 * below - type.widen(static_cast<uint16_t>(low - 1))
                               : type.widen(high);
      const auto middle = static_cast<float>((below + above) / 2);
      const uint16_t even = (low & 1) == 0 ? low : high;
      ASSERT_EQ(type.narrow(middle), even) << type.name << low;
      ASSERT_EQ(type.narrow(std::nextafterf(middle, 0.0f)), low) << type.name << low;
      ASSERT_EQ(type.narrow(std::nextafterf(middle, INFINITY)), high) << type.name << low;
      ASSERT_EQ(type.narrow(-middle), even | 0x8000) << type.name << low;
    }
  }
}

TEST(HalfConversion, OverflowsToInfinityWhereDocumented) {
  EXPECT_EQ(f16_from_f32(65504.0f), 0x7BFF);
  EXPECT_EQ(f16_from_f32(65519.996f), 0x7BFF);
  EXPECT_EQ(f16_from_f32(65520.0f), 0x7C00);
  EXPECT_EQ(f16_from_f32(-1e38f), 0xFC00);
  EXPECT_EQ(bf16_from_f32(0x1.FEFFFEp127f), 0x7F7F);
  EXPECT_EQ(bf16_from_f32(0x1.FFp127f), 0x7F80);
}

TEST(FloatExtremes, PropagateNanAndPutMinusZeroBeforePlusZero) {
  EXPECT_TRUE(std::isnan(float_min(1.0f, NAN)));
  EXPECT_TRUE(std::isnan(float_max(NAN, 1.0f)));
  EXPECT_TRUE(std::signbit(float_min(0.0f, -0.0f)));
  EXPECT_TRUE(std::signbit(float_min(-0.0f, 0.0f)));
  EXPECT_FALSE(std::signbit(float_max(0.0f, -0.0f)));
  EXPECT_FALSE(std::signbit(float_max(-0.0f, 0.0f)));
}

TEST(FloatEnvironment, IsTheDefaultOneInAFreshThread) {
  EXPECT_TRUE(float_environment_is_default());
}

#if defined(__x86_64__)
TEST(FloatEnvironment, IsFoundOutWhenDenormalsAreFlushedOrRoundingDiffers) {
  static constexpr unsigned kFlushToZero = 1u << 15;
  static constexpr unsigned kDenormalsAreZero = 1u << 6;
  static constexpr unsigned kRoundDown = 1u << 13;
  static constexpr unsigned kRoundUp = 2u << 13;
  static constexpr unsigned kTowardZero = 3u << 13;
  const unsigned original = __builtin_ia32_stmxcsr();
  for (unsigned bits : {kFlushToZero, kDenormalsAreZero, kRoundDown, kRoundUp, kTowardZero}) {
    __builtin_ia32_ldmxcsr(original | bits);
    const bool standard = float_environment_is_default();
    __builtin_ia32_ldmxcsr(original);
    EXPECT_FALSE(standard) << std::hex << bits;
  }
}
#endif

}  // namespace
}  // namespace sumcast::numeric
