// The rules of docs/numerics.md for native folds, each shown by the case that would break it.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "numeric/element_traits.h"
#include "numeric/fold.h"
#include "numeric/test_support.h"

namespace sumcast::numeric {
namespace {

template <typename T>
T fold_values(ElementType type, Reduction reduction, const std::vector<T>& values,
              uint32_t group_size) {
  std::vector<const std::byte*> sources;
  for (const T& value : values) sources.push_back(reinterpret_cast<const std::byte*>(&value));
  T out{};
  fold(type, reduction, sources.data(), sources.size(), 1, group_size,
       reinterpret_cast<std::byte*>(&out));
  return out;
}

float fold_f32(Reduction reduction, const std::vector<float>& values) {
  return fold_values(ElementType::kF32, reduction, values, static_cast<uint32_t>(values.size()));
}

TEST(FoldNumbers, AddsFromTheLeft) {
  on_every_target([] {
    EXPECT_EQ(fold_f32(Reduction::kSum, {1e30f, -1e30f, 1.0f}), 1.0f);
    EXPECT_EQ(fold_f32(Reduction::kSum, {1e30f, 1.0f, -1e30f}), 0.0f);
    // 2^24 + 1 + 1: each 1 is lost on its own; a pairwise sum would keep both.
    EXPECT_EQ(fold_f32(Reduction::kSum, {0x1p24f, 1.0f, 1.0f, 0.0f}), 0x1p24f);
  });
}

TEST(FoldNumbers, CopiesTheFirstAddendSoThatMinusZeroSurvives) {
  on_every_target([] {
    EXPECT_TRUE(same_bits(fold_f32(Reduction::kSum, {-0.0f}), -0.0f));
    EXPECT_TRUE(same_bits(fold_f32(Reduction::kSum, {-0.0f, -0.0f}), -0.0f));
    EXPECT_TRUE(same_bits(fold_f32(Reduction::kSum, {-0.0f, 0.0f}), 0.0f));
  });
}

TEST(FoldNumbers, KeepsDenormalsExactly) {
  on_every_target([] {
    EXPECT_EQ(fold_f32(Reduction::kSum, {0x1p-149f, 0x1p-149f, 0x1p-148f}), 0x1p-147f);
    EXPECT_EQ(fold_f32(Reduction::kSum, {0x1p-126f, -0x1p-127f}), 0x1p-127f);
    EXPECT_EQ(fold_f32(Reduction::kProduct, {0x1p-100f, 0x1p-49f}), 0x1p-149f);
    EXPECT_EQ(fold_f32(Reduction::kAvg, {0x1p-126f, 0.0f}), 0x1p-127f);
  });
}

TEST(FoldNumbers, MakesEveryNanTheCanonicalOne) {
  const float payload = std::bit_cast<float>(0xFFC12345u);
  const float signalling = std::bit_cast<float>(0x7F800001u);
  const float nan = std::bit_cast<float>(kCanonicalNanF32);
  on_every_target([&] {
    for (Reduction reduction : {Reduction::kSum, Reduction::kAvg, Reduction::kMin, Reduction::kMax,
                                Reduction::kProduct}) {
      EXPECT_TRUE(same_bits(fold_f32(reduction, {payload}), nan)) << name_of(reduction);
      EXPECT_TRUE(same_bits(fold_f32(reduction, {1.0f, signalling}), nan)) << name_of(reduction);
      EXPECT_TRUE(same_bits(fold_f32(reduction, {payload, INFINITY}), nan)) << name_of(reduction);
    }
    EXPECT_TRUE(same_bits(fold_f32(Reduction::kSum, {INFINITY, -INFINITY}), nan));
    EXPECT_TRUE(same_bits(fold_f32(Reduction::kProduct, {INFINITY, 0.0f}), nan));
    const std::vector<double> infinities{HUGE_VAL, -HUGE_VAL};
    EXPECT_EQ(std::bit_cast<uint64_t>(
                  fold_values<double>(ElementType::kF64, Reduction::kSum, infinities, 2)),
              kCanonicalNanF64);
    EXPECT_EQ(fold_values<uint16_t>(ElementType::kF16, Reduction::kSum, {0x7C00, 0xFC00}, 2),
              kCanonicalNanF16);
    EXPECT_EQ(fold_values<uint16_t>(ElementType::kBF16, Reduction::kMax, {0x3F80, 0xFFFF}, 2),
              kCanonicalNanBF16);
  });
}

// Acceptance recipe A5: whoever holds a NaN or an infinity, the result is the same, and the lanes
// beside it are untouched.
TEST(FoldNumbers, PropagatesNanAndInfinityWhoeverHoldsThem) {
  static constexpr size_t kRanks = 4;
  static constexpr size_t kLanes = 19;
  const std::vector<float> special{NAN, INFINITY, -INFINITY, 3.0f};
  for (Reduction reduction : {Reduction::kSum, Reduction::kAvg, Reduction::kMin, Reduction::kMax}) {
    std::vector<size_t> order{0, 1, 2, 3};
    do {
      std::vector<float> inputs(kRanks * kLanes);
      std::vector<const std::byte*> sources;
      for (size_t rank = 0; rank < kRanks; ++rank) {
        float* lanes = inputs.data() + rank * kLanes;
        std::fill_n(lanes, kLanes, static_cast<float>(rank + 1));
        lanes[5] = special[order[rank]];                // All of them meet here.
        lanes[7] = order[rank] == 0 ? INFINITY : 1.0f;  // One infinity.
        lanes[18] = order[rank] == 0 ? NAN : -1.0f;     // One NaN.
        sources.push_back(reinterpret_cast<const std::byte*>(lanes));
      }
      on_every_target([&] {
        std::vector<float> out(kLanes);
        fold(ElementType::kF32, reduction, sources.data(), kRanks, kLanes, kRanks,
             reinterpret_cast<std::byte*>(out.data()));
        const float nan = std::bit_cast<float>(kCanonicalNanF32);
        EXPECT_TRUE(same_bits(out[5], nan));
        EXPECT_EQ(out[7], reduction == Reduction::kMin ? 1.0f : INFINITY);
        EXPECT_TRUE(same_bits(out[18], nan));
        const float usual = reduction == Reduction::kSum   ? 10.0f
                            : reduction == Reduction::kAvg ? 2.5f
                            : reduction == Reduction::kMin ? 1.0f
                                                           : 4.0f;
        for (size_t i = 0; i < kLanes; ++i) {
          if (i == 5 || i == 7 || i == 18) continue;
          EXPECT_EQ(out[i], usual) << i;
        }
      });
    } while (std::next_permutation(order.begin(), order.end()));
  }
}

TEST(FoldNumbers, TakesMinimaAndMaximaThatCommute) {
  on_every_target([] {
    for (const auto& zeros : {std::vector<float>{0.0f, -0.0f}, std::vector<float>{-0.0f, 0.0f}}) {
      EXPECT_TRUE(same_bits(fold_f32(Reduction::kMin, zeros), -0.0f));
      EXPECT_TRUE(same_bits(fold_f32(Reduction::kMax, zeros), 0.0f));
    }
    EXPECT_EQ(fold_f32(Reduction::kMin, {-1.0f, -2.0f, 5.0f}), -2.0f);
    EXPECT_EQ(fold_f32(Reduction::kMax, {-1.0f, -2.0f, -0x1p-149f}), -0x1p-149f);
    EXPECT_EQ(fold_f32(Reduction::kMax, {-INFINITY, -1.0f}), -1.0f);
  });
}

// Acceptance recipe A6.
TEST(FoldNumbers, WrapsIntegersModuloTwoToTheirWidth) {
  on_every_target([] {
    EXPECT_EQ(fold_values<int32_t>(ElementType::kI32, Reduction::kSum, {INT32_MAX, 1}, 2),
              INT32_MIN);
    EXPECT_EQ(fold_values<int64_t>(ElementType::kI64, Reduction::kProduct, {INT64_MAX, 2}, 2), -2);
    EXPECT_EQ(fold_values<int8_t>(ElementType::kI8, Reduction::kSum, {100, 100}, 2), -56);
    EXPECT_EQ(fold_values<uint8_t>(ElementType::kU8, Reduction::kProduct, {200, 200}, 2), 64);
    EXPECT_EQ(fold_values<int16_t>(ElementType::kI16, Reduction::kProduct, {-300, 300}, 2), -24464);
  });
}

TEST(FoldNumbers, TruncatesIntegerAveragesTowardZeroAfterWrapping) {
  on_every_target([] {
    EXPECT_EQ(fold_values<int32_t>(ElementType::kI32, Reduction::kAvg, {-3, -4}, 2), -3);
    EXPECT_EQ(fold_values<int32_t>(ElementType::kI32, Reduction::kAvg, {3, 4}, 2), 3);
    EXPECT_EQ(fold_values<int8_t>(ElementType::kI8, Reduction::kAvg, {100, 100}, 2), -28);
    EXPECT_EQ(fold_values<uint8_t>(ElementType::kU8, Reduction::kAvg, {200, 100}, 2), 22);
    EXPECT_EQ(fold_values<int8_t>(ElementType::kI8, Reduction::kAvg, {-128}, 60000), 0);
  });
}

TEST(FoldNumbers, AccumulatesHalfTypesInF32AndRoundsOnce) {
  const std::vector<uint16_t> halves{f16_from_f32(2048), f16_from_f32(1), f16_from_f32(1)};
  const std::vector<uint16_t> brains{bf16_from_f32(256), bf16_from_f32(1), bf16_from_f32(1)};
  const std::vector<uint16_t> large{f16_from_f32(60000), f16_from_f32(60000)};
  on_every_target([&] {
    EXPECT_EQ(f32_from_f16(fold_values(ElementType::kF16, Reduction::kSum, halves, 3)), 2050.0f);
    EXPECT_EQ(f32_from_bf16(fold_values(ElementType::kBF16, Reduction::kSum, brains, 3)), 258.0f);
    EXPECT_EQ(f32_from_f16(fold_values(ElementType::kF16, Reduction::kAvg, large, 2)), 60000.0f);
    EXPECT_EQ(fold_values(ElementType::kF16, Reduction::kSum, large, 2), 0x7C00);
  });
}

TEST(FoldNumbers, AccumulatesF64InF64) {
  on_every_target([] {
    EXPECT_EQ(fold_values<double>(ElementType::kF64, Reduction::kSum, {1.0, 0x1p-50}, 2),
              1.0 + 0x1p-50);
  });
}

TEST(FoldNumbers, TakesAnyNonZeroByteForTrue) {
  const auto of = [](Reduction reduction, std::vector<uint8_t> values) {
    const auto size = static_cast<uint32_t>(values.size());
    return fold_values(ElementType::kBool, reduction, values, size);
  };
  on_every_target([&] {
    for (Reduction any : {Reduction::kSum, Reduction::kOr, Reduction::kMax}) {
      EXPECT_EQ(of(any, {2, 0}), 1);
      EXPECT_EQ(of(any, {0, 0}), 0);
      EXPECT_EQ(of(any, {255}), 1);
    }
    for (Reduction all : {Reduction::kProduct, Reduction::kAnd, Reduction::kMin, Reduction::kAvg}) {
      EXPECT_EQ(of(all, {2, 1, 4}), 1);  // No bit is common to the three.
      EXPECT_EQ(of(all, {2, 0, 1}), 0);
    }
    EXPECT_EQ(of(Reduction::kXor, {2, 1}), 0);
    EXPECT_EQ(of(Reduction::kXor, {2, 1, 7}), 1);
  });
}

TEST(FoldNumbers, CopiesVerbatim) {
  on_every_target([] {
    EXPECT_EQ(fold_values<uint32_t>(ElementType::kF32, Reduction::kCopy, {0xFFC12345u}, 1),
              0xFFC12345u);
    EXPECT_EQ(fold_values<uint8_t>(ElementType::kBool, Reduction::kCopy, {7}, 1), 7);
  });
}

TEST(FoldNumbers, DividesByTheGroupAndNotByTheNumberOfSources) {
  on_every_target([] {
    EXPECT_EQ(fold_values<float>(ElementType::kF32, Reduction::kAvg, {6.0f, 6.0f}, 8), 1.5f);
  });
}

TEST(FoldDeathTest, RefusesWhatDoesNotExist) {
  const float value = 1.0f;
  const std::byte* source = reinterpret_cast<const std::byte*>(&value);
  std::byte out[4];
  EXPECT_DEATH(fold(ElementType::kF32, Reduction::kXor, &source, 1, 1, 1, out), "applies");
  EXPECT_DEATH(fold(ElementType::kF32, Reduction::kAvg, &source, 1, 1, 0, out), "group_size");
  EXPECT_DEATH(fold(ElementType::kF32, Reduction::kSum, &source, 0, 1, 1, out), "source_count");
}

}  // namespace
}  // namespace sumcast::numeric
