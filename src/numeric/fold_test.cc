// Every SIMD target against the scalar twin, to the bit, over everything that fold() takes.
#include "numeric/fold.h"

#include <cstdio>

#include "numeric/fold_scalar.h"
#include "numeric/test_support.h"

namespace sumcast::numeric {
namespace {

void fill_hostile(ElementType type, Prng& prng, Buffer& buffer) {
  if (type == ElementType::kF32) {
    for (size_t i = 0; i + 4 <= buffer.size(); i += 4) {
      const uint32_t bits = hostile_f32_bits(prng);
      std::memcpy(buffer.data() + i, &bits, 4);
    }
    return;
  }
  // Full-range bits: for f16 and bf16 one pattern in 32 or 256 is special, for f64 they are seeded.
  for (size_t i = 0; i < buffer.size(); ++i) {
    buffer.data()[i] = static_cast<std::byte>(prng.next_u32() & 0xFF);
  }
  if (type == ElementType::kF64) {
    static constexpr uint64_t kSpecial[] = {0x7FF0000000000000,
                                            0xFFF0000000000000,
                                            0x7FF0000000000001,
                                            0xFFF8000000001234,
                                            0,
                                            0x8000000000000000,
                                            1,
                                            0x7FEFFFFFFFFFFFFF};
    for (size_t i = 0; i + 8 <= buffer.size(); i += 8) {
      if (!prng.chance(0.25)) continue;
      std::memcpy(buffer.data() + i, &kSpecial[prng.below(std::size(kSpecial))], 8);
    }
  }
  if (type == ElementType::kBool) {
    for (size_t i = 0; i < buffer.size(); ++i) {
      if (prng.chance(0.5)) buffer.data()[i] = std::byte{0};
    }
  }
}

void compare_with_twin(ElementType type, Reduction reduction, size_t source_count, size_t lanes,
                       Prng& prng) {
  const size_t bytes = lanes * element_bytes(type);
  std::vector<Buffer> inputs;
  std::vector<const std::byte*> sources;
  for (size_t k = 0; k < source_count; ++k) {
    inputs.emplace_back(bytes, prng.below(64));
    fill_hostile(type, prng, inputs.back());
  }
  for (const Buffer& input : inputs) sources.push_back(input.data());
  const uint32_t group_size = static_cast<uint32_t>(source_count + prng.below(5));
  Buffer expected(bytes, 0);
  scalar::fold(type, reduction, sources.data(), source_count, lanes, group_size, expected.data());
  on_every_target([&] {
    Buffer actual(bytes, prng.below(64));
    fold(type, reduction, sources.data(), source_count, lanes, group_size, actual.data());
    EXPECT_TRUE(bytes == 0 || std::memcmp(actual.data(), expected.data(), bytes) == 0)
        << name_of(type) << ' ' << name_of(reduction) << ", " << source_count << " sources, "
        << lanes << " lanes";
    EXPECT_TRUE(actual.canaries_intact());
  });
}

TEST(Fold, NamesTheTargetsThatThisCpuLacks) {
  int run = 0;
  for (const BuiltTarget& target : built_targets()) {
    std::printf("[ target   ] %s: %s\n", target.name, target.runs_here ? "run" : "not run");
    run += target.runs_here;
  }
  EXPECT_GE(run, 1);
}

class FoldOfType : public testing::TestWithParam<int> {};

TEST_P(FoldOfType, EqualsItsScalarTwinOnEveryTarget) {
  const auto type = static_cast<ElementType>(GetParam());
  Prng prng(0x5EED0000u + static_cast<uint64_t>(GetParam()));
  static constexpr size_t kSourceCounts[] = {1, 2, 3, 4, 5, 8, 9, 16};
  static constexpr size_t kLanes[] = {0, 1, 3, 7, 15, 16, 31, 64, 65, 127, 352, 353};
  for (int r = 0; r < kReductions; ++r) {
    const auto reduction = static_cast<Reduction>(r);
    if (!reduction_applies(type, reduction)) continue;
    for (size_t source_count : kSourceCounts) {
      if (reduction == Reduction::kCopy && source_count != 1) continue;
      for (size_t lanes : kLanes) {
        compare_with_twin(type, reduction, source_count, lanes, prng);
        if (HasFailure()) return;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(AllTypes, FoldOfType, testing::Range(0, kElementTypes),
                         [](const testing::TestParamInfo<int>& type) {
                           return std::string(name_of(static_cast<ElementType>(type.param)));
                         });

TEST(Fold, MayWriteItsResultOverAnyOneSource) {
  Prng prng(7);
  static constexpr size_t kLanes = 101;
  for (size_t target = 0; target < 5; ++target) {
    std::vector<Buffer> originals;
    std::vector<const std::byte*> sources;
    for (size_t k = 0; k < 5; ++k) {
      originals.emplace_back(kLanes * 4, k);
      fill_hostile(ElementType::kF32, prng, originals.back());
    }
    for (const Buffer& original : originals) sources.push_back(original.data());
    Buffer expected(kLanes * 4, 0);
    scalar::fold(ElementType::kF32, Reduction::kSum, sources.data(), 5, kLanes, 5, expected.data());
    on_every_target([&] {
      std::vector<Buffer> inputs;
      for (const Buffer& original : originals) {
        inputs.emplace_back(kLanes * 4, 3);
        std::memcpy(inputs.back().data(), original.data(), kLanes * 4);
      }
      std::vector<const std::byte*> places;
      for (const Buffer& input : inputs) places.push_back(input.data());
      fold(ElementType::kF32, Reduction::kSum, places.data(), 5, kLanes, 5, inputs[target].data());
      EXPECT_EQ(std::memcmp(inputs[target].data(), expected.data(), kLanes * 4), 0);
    });
  }
}

TEST(Fold, TakesAThousandSources) {
  Prng prng(8);
  compare_with_twin(ElementType::kF32, Reduction::kSum, 1024, 352, prng);
  compare_with_twin(ElementType::kF16, Reduction::kAvg, 1024, 77, prng);
}

}  // namespace
}  // namespace sumcast::numeric
