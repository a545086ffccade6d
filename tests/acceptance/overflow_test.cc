// A6: integers wrap; floats become infinite or stay within the published bound, never clip.
#include <bit>
#include <cmath>
#include <cstdio>
#include <limits>

#include "acceptance/matrix_world.h"
#include "base/prng.h"

namespace sumcast::acceptance {
namespace {

constexpr uint32_t kWorld = 3;
constexpr size_t kBlock = 256, kCount = 5 * kBlock + 17;
constexpr float kMax = std::numeric_limits<float>::max();

class Overflow : public testing::TestWithParam<Algorithm> {};

TEST_P(Overflow, IntegersWrap) {
  with_world(kWorld, GetParam(), [](Context& context) {
    std::vector<int32_t> i32 = {INT32_MAX, INT32_MIN, 2'000'000'000};
    ASSERT_TRUE(context.world().all_reduce(std::span(i32)));
    EXPECT_EQ(i32, (std::vector<int32_t>{0x7FFFFFFD, INT32_MIN, 1'705'032'704}));
    std::vector<int8_t> i8 = {120, -128, 100};
    ASSERT_TRUE(context.world().all_reduce(std::span(i8)));
    EXPECT_EQ(i8, (std::vector<int8_t>{104, -128, 44}));
    std::vector<int8_t> average = {120};  // 360 wraps to 104; 104 / 3 truncates.
    ASSERT_TRUE(context.world().all_reduce(std::span(average), Reduction::kAvg));
    EXPECT_EQ(average, (std::vector<int8_t>{34}));
  });
}

/// Sum of one element each, of three ranks.
float reduce_one(Context& context, float mine, Reduction reduction, WireFormat wire) {
  float x = mine;
  Call call;
  call.wire = wire;
  const auto result = context.world().all_reduce(std::span(&x, 1), reduction, call);
  EXPECT_TRUE(result.has_value()) << result.error().what;
  return x;
}

TEST_P(Overflow, SumsBeyondTheLargestFloatAreInfinite) {
  if (!is_canonical(GetParam())) GTEST_SKIP() << "baselines have no wire formats";
  with_world(kWorld, GetParam(), [](Context& context) {
    for (int w = 0; w < kWireFormats; ++w) {
      const auto wire = static_cast<WireFormat>(w);
      EXPECT_EQ(reduce_one(context, kMax, Reduction::kSum, wire), INFINITY) << name_of(wire);
      EXPECT_EQ(reduce_one(context, -kMax, Reduction::kSum, wire), -INFINITY) << name_of(wire);
    }
    // N4: a native average is infinite where its sum is. N15: one of fixed point is finite.
    EXPECT_EQ(reduce_one(context, kMax, Reduction::kAvg, WireFormat::kNative), INFINITY);
    const float average = reduce_one(context, kMax, Reduction::kAvg, WireFormat::kFixed);
    EXPECT_NEAR(average / kMax, 1.0f, 1e-6f);
    EXPECT_EQ(reduce_one(context, 70'000, Reduction::kAvg, WireFormat::kFP16), INFINITY);
  });
}

/// docs/numerics.md N2, N11, N13, N16: how far off a sum may be.
/// @param magnitudes  sum over ranks of |x| at the element.
/// @param block_maxima  sum over ranks of the largest |x| of the element's block.
/// @param block_exponent  the smallest m with all |x| of the block below 2^m.
double bound(WireFormat wire, uint32_t n, double magnitudes, double block_maxima,
             int block_exponent) {
  switch (wire) {
    case WireFormat::kNative:
      return (n - 1) * 0x1.01p-24 * magnitudes;
    case WireFormat::kBF16:
      return (2.01 * 0x1p-8 + n * 0x1p-23) * magnitudes + (n + 1) * 0x1p-133;
    case WireFormat::kFP16:
      return (2.01 * 0x1p-11 + n * 0x1p-23) * magnitudes + (n + 1) * 0x1p-24;
    case WireFormat::kInt8:
      return (1.0 / 125 + n * 0x1p-23) * block_maxima + (n + 1) * 0x1p-142;
    case WireFormat::kFixed: {
      const int scale = 31 - static_cast<int>(std::bit_width(n - 1));
      return std::ldexp(n, block_exponent - scale - 1);
    }
  }
  return 0;
}

/// One rank holds 1e30 (10,000 for fp16, which has no more), the others 1e-30, in one element of
/// four; the rest is ordinary.
float hostile_at(size_t index, uint32_t rank, WireFormat wire) {
  Prng prng(index * 31 + rank);
  if (index % 4 != 0) return static_cast<float>(prng.unit() * 2 - 1);
  const float large = wire == WireFormat::kFP16 ? 1e4f : 1e30f;
  return index / 4 % 3 == rank ? large : 1e-30f;
}

TEST_P(Overflow, ErrorsOfAllFormatsStayWithinTheirBounds) {
  if (!is_canonical(GetParam())) GTEST_SKIP() << "baselines have no wire formats";
  with_world(kWorld, GetParam(), [](Context& context) {
    for (int w = 0; w < kWireFormats; ++w) {
      const auto wire = static_cast<WireFormat>(w);
      std::vector<float> data(kCount);
      for (size_t i = 0; i < kCount; ++i) data[i] = hostile_at(i, context.rank(), wire);
      Call call;
      call.wire = wire;
      ASSERT_TRUE(context.world().all_reduce(std::span(data), Reduction::kSum, call));
      double worst = 0;
      for (size_t i = 0; i < kCount; ++i) {
        double exact = 0, magnitudes = 0, maxima = 0, most = 0;
        const size_t begin = i / kBlock * kBlock, end = std::min(begin + kBlock, kCount);
        for (uint32_t rank = 0; rank < kWorld; ++rank) {
          double largest = 0;
          for (size_t j = begin; j < end; ++j) {
            largest = std::max<double>(largest, std::abs(hostile_at(j, rank, wire)));
          }
          maxima += largest;
          most = std::max(most, largest);
          exact += hostile_at(i, rank, wire);
          magnitudes += std::abs(hostile_at(i, rank, wire));
        }
        // Fixed point's bound is before the result's own rounding to f32.
        const double limit = bound(wire, kWorld, magnitudes, maxima, std::ilogb(most) + 1) +
                             0x1p-24 * std::abs(exact);
        const double error = std::abs(data[i] - exact);
        ASSERT_LE(error, limit) << name_of(wire) << ", element " << i << ": " << data[i]
                                << " instead of " << exact;
        worst = std::max(worst, error / limit);
      }
      if (context.rank() == 0) {
        std::printf("%-8s worst error: %.0f %% of the bound\n", name_of(wire).data(), 100 * worst);
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Of, Overflow, testing::ValuesIn(kAlgorithms),
                         [](const auto& one) { return test_name_of(one.param); });

}  // namespace
}  // namespace sumcast::acceptance
