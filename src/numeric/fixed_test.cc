// Fixed point: no overflow at any group size, errors within the bound, NaN and infinity carried by
// plain integer additions, and the same lanes whatever the packets and the SIMD target.
#include "numeric/fixed.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "numeric/element_traits.h"
#include "numeric/fixed_lane.h"
#include "numeric/fixed_scalar.h"
#include "numeric/test_support.h"

namespace sumcast::numeric {
namespace {

constexpr float kLargest = std::numeric_limits<float>::max();

std::vector<BlockCode> codes_of(const std::vector<float>& tensor) {
  std::vector<BlockCode> codes(block_count(tensor.size()));
  block_codes(tensor.data(), tensor.size(), codes.data());
  return codes;
}

// Combines the codes of all ranks as the network does: bytes, by maximum.
std::vector<BlockCode> combined_codes(const std::vector<std::vector<float>>& inputs) {
  std::vector<std::vector<BlockCode>> all;
  std::vector<const std::byte*> sources;
  for (const auto& input : inputs) all.push_back(codes_of(input));
  for (const auto& codes : all) sources.push_back(reinterpret_cast<const std::byte*>(codes.data()));
  std::vector<BlockCode> combined(all[0].size());
  fold(ElementType::kU8, Reduction::kMax, sources.data(), sources.size(), 2 * combined.size(), 1,
       reinterpret_cast<std::byte*>(combined.data()));
  return combined;
}

std::vector<int32_t> encoded(const std::vector<float>& input, const std::vector<BlockCode>& codes,
                             uint32_t group_size) {
  std::vector<int32_t> lanes(input.size());
  encode_fixed(input.data(), input.size(), 0, codes.data(), group_size,
               reinterpret_cast<std::byte*>(lanes.data()));
  return lanes;
}

// Adds the ranks in the given order; `order` indexes inputs and may repeat.
std::vector<float> all_reduce(const std::vector<std::vector<float>>& inputs,
                              const std::vector<size_t>& order, bool average) {
  const auto n = static_cast<uint32_t>(order.size());
  const std::vector<BlockCode> codes = combined_codes(inputs);
  std::vector<std::vector<int32_t>> lanes;
  for (const auto& input : inputs) lanes.push_back(encoded(input, codes, n));
  std::vector<const std::byte*> sources;
  for (size_t rank : order) {
    sources.push_back(reinterpret_cast<const std::byte*>(lanes[rank].data()));
  }
  std::vector<int32_t> sums(inputs[0].size());
  fold(ElementType::kI32, Reduction::kSum, sources.data(), n, sums.size(), n,
       reinterpret_cast<std::byte*>(sums.data()));
  std::vector<float> out(sums.size());
  decode_fixed(reinterpret_cast<const std::byte*>(sums.data()), sums.size(), 0, codes.data(), n,
               average, out.data());
  return out;
}

std::vector<size_t> in_order(size_t n) {
  std::vector<size_t> order(n);
  std::iota(order.begin(), order.end(), size_t{0});
  return order;
}

TEST(Fixed, HasHeadroomForEveryGroupSize) {
  for (uint32_t n = 1; n <= kGroupSizeMax; ++n) {
    // The largest |x| below 2^m, scaled and rounded as encode_fixed does.
    const double largest = (1.0 - 0x1p-24) * std::ldexp(1.0, plain_scale_log2(n));
    ASSERT_LE(n * std::nearbyint(largest), INT32_MAX) << n;
    ASSERT_GE(2.0 * n * std::ldexp(1.0, plain_scale_log2(n)), 0x1p31 - n) << n;
    ASSERT_LT(n, uint64_t{1} << counter_bits(n)) << n;
    ASSERT_EQ(value_bits(n) + 2 * counter_bits(n), 32) << n;
    if (n >= kFlaggedValuesGroupEnd) continue;
    const double most = n * std::ldexp(1.0, flagged_scale_log2(n));
    ASSERT_LT(most, std::ldexp(1.0, value_bits(n) - 1)) << n;
    ASSERT_GE(flagged_scale_log2(n), 1) << n;
  }
}

TEST(Fixed, NeverOverflowsWhenAllRanksHoldTheLargestValue) {
  for (uint32_t n : {1u, 2u, 3u, 8u, 127u, 128u, 129u, 255u, 256u, 257u, 1000u, 32768u, 65535u}) {
    for (float largest : {kLargest, -kLargest, 0x1.FFFFFEp0f, 0x1p-126f, -0x1.FFFFFCp-127f, 1e-45f,
                          1.0f, 0x1p127f}) {
      const std::vector<float> input(16, largest);
      const std::vector<BlockCode> codes = codes_of(input);
      on_every_target([&] {
        const int64_t lane = encoded(input, codes, n)[0];
        EXPECT_LE(std::abs(lane * n), int64_t{INT32_MAX}) << n << ' ' << largest;
        const auto sum = static_cast<int32_t>(lane * n);
        const std::vector<int32_t> sums(1, sum);
        float mean = 0;
        decode_fixed(reinterpret_cast<const std::byte*>(sums.data()), 1, 0, codes.data(), n, true,
                     &mean);
        const double allowed = fixed_error_bound(codes[0], n) / n + 0x1p-23 * std::fabs(largest);
        EXPECT_NEAR(mean, largest, allowed + 0x1p-149) << n;
      });
    }
  }
}

void check_bound(const std::vector<std::vector<float>>& inputs, uint32_t n) {
  std::vector<size_t> order(n);
  for (size_t i = 0; i < n; ++i) order[i] = i % inputs.size();
  const std::vector<BlockCode> codes = combined_codes(inputs);
  const std::vector<float> sum = all_reduce(inputs, order, false);
  const std::vector<float> mean = all_reduce(inputs, order, true);
  for (size_t i = 0; i < sum.size(); ++i) {
    double exact = 0;
    for (size_t rank : order) exact += inputs[rank][i];
    if (!std::isfinite(exact)) continue;
    const double bound = fixed_error_bound(codes[i / kBlockLanes], n);
    // One rounding to f32 for a sum, two for an average; denormal results round at 2^-150.
    const double sum_bound = bound + 0x1p-24 * (std::fabs(exact) + bound) + 0x1p-150;
    const double mean_bound = (bound + 0x1p-22 * (std::fabs(exact) + bound)) / n + 0x1p-150;
    if (std::fabs(exact) + sum_bound < kLargest) {  // Else the sum may be infinite.
      ASSERT_LE(std::fabs(sum[i] - exact), sum_bound) << n << ' ' << i;
    }
    ASSERT_LE(std::fabs(mean[i] - exact / n), mean_bound) << n << ' ' << i;
  }
}

TEST(Fixed, StaysWithinItsBoundAtEveryScale) {
  Prng prng(21);
  for (uint32_t n : {1u, 2u, 3u, 8u, 255u, 256u, 1000u}) {
    for (float limit : {1.0f, 1e38f, 1e-38f, 1e-44f, 3e9f, 1e-20f}) {
      std::vector<std::vector<float>> inputs(std::min<size_t>(n, 5), std::vector<float>(300));
      for (auto& input : inputs) {
        for (float& value : input) value = wide_f32(prng, limit);
      }
      on_every_target([&] { check_bound(inputs, n); });
      // The same with a NaN and an infinity in the first block: coarser, but bounded.
      inputs[0][10] = NAN;
      inputs.back()[200] = -INFINITY;
      on_every_target([&] { check_bound(inputs, n); });
      if (HasFailure()) return;
    }
  }
}

TEST(Fixed, StatesTheBoundOfThePaperToAFactorOfTwo) {
  const BlockCode ones = {127, 0};  // Largest value in [1, 2): m = 1.
  for (uint32_t n = 1; n <= kGroupSizeMax; ++n) {
    const double paper = n / (2.0 * (0x1p31 - n) / (n * 2.0));
    ASSERT_LE(fixed_error_bound(ones, n), 2.0001 * paper) << n;
  }
  EXPECT_EQ(fixed_error_bound(ones, 8), 8 * 0x1p-28);
}

TEST(Fixed, DoesNotDependOnTheOrderOfAddition) {
  Prng prng(22);
  std::vector<std::vector<float>> inputs(6, std::vector<float>(700));
  for (auto& input : inputs) {
    for (float& value : input) value = wide_f32(prng, 1e6f);
  }
  inputs[2][300] = NAN;
  inputs[4][301] = INFINITY;
  const std::vector<float> first = all_reduce(inputs, in_order(6), false);
  for (int trial = 0; trial < 20; ++trial) {
    std::vector<size_t> order = in_order(6);
    for (size_t i = 5; i > 0; --i) std::swap(order[i], order[prng.below(i + 1)]);
    const std::vector<float> again = all_reduce(inputs, order, false);
    EXPECT_EQ(std::memcmp(first.data(), again.data(), 4 * first.size()), 0);
  }
}

// Acceptance recipe A5, quantised: every assignment of {finite, NaN, +Inf, -Inf} to three ranks.
TEST(Fixed, CarriesNanAndInfinityThroughIntegerAdditions) {
  const float kinds[] = {1.0f, NAN, INFINITY, -INFINITY};
  for (size_t mix = 0; mix < 64; ++mix) {
    std::vector<std::vector<float>> inputs(3, std::vector<float>(256, 0.75f));
    double expected = 0;
    for (size_t rank = 0; rank < 3; ++rank) {
      inputs[rank][9] = kinds[(mix >> (2 * rank)) & 3];
      expected += inputs[rank][9];
    }
    on_every_target([&] {
      const std::vector<float> out = all_reduce(inputs, in_order(3), false);
      if (std::isnan(expected)) {
        EXPECT_EQ(std::bit_cast<uint32_t>(out[9]), kCanonicalNanF32) << mix;
      } else {
        EXPECT_EQ(out[9], static_cast<float>(expected)) << mix;
      }
      for (size_t i = 0; i < 256; ++i) {
        if (i == 9) continue;
        ASSERT_NEAR(out[i], 2.25f, fixed_error_bound({127, 1}, 3)) << mix;
      }
    });
  }
}

TEST(Fixed, CountsNonFiniteRanksUpToTheLargestGroup) {
  for (uint32_t n : {1u, 2u, 255u, 256u, 1023u, 1024u, 32767u, 32768u, 65535u}) {
    const BlockCode code{127, 1};
    const auto lane = [&](float value) {
      return static_cast<uint32_t>(flagged_lane(value, code, n));
    };
    const auto read = [&](uint32_t sum) {
      return flagged_value(static_cast<int32_t>(sum), code, n, false);
    };
    for (uint32_t k : {1u, n / 2, n - 1, n}) {
      if (k < 1) continue;
      const uint32_t others = (n - k) * lane(-1.999f);
      EXPECT_EQ(read(k * lane(INFINITY) + others), INFINITY) << n << ' ' << k;
      EXPECT_EQ(read(k * lane(-INFINITY) + others), -INFINITY) << n << ' ' << k;
      EXPECT_TRUE(std::isnan(read(k * lane(NAN) + others))) << n << ' ' << k;
      if (k < n) {
        const uint32_t both = k * lane(INFINITY) + (n - k) * lane(-INFINITY);
        EXPECT_TRUE(std::isnan(read(both))) << n << ' ' << k;
      }
    }
  }
}

TEST(Fixed, MakesNeighboursOfNanLoudlyNanInGroupsTooLargeForThem) {
  const uint32_t n = kFlaggedValuesGroupEnd;
  std::vector<float> input(600, 1.0f);
  input[0] = INFINITY;
  const std::vector<BlockCode> codes = codes_of(input);
  const std::vector<int32_t> lanes = encoded(input, codes, n);
  std::vector<float> out(600);
  decode_fixed(reinterpret_cast<const std::byte*>(lanes.data()), 600, 0, codes.data(), n, false,
               out.data());
  EXPECT_EQ(out[0], INFINITY);
  EXPECT_TRUE(std::isnan(out[1]));
  EXPECT_TRUE(std::isnan(out[255]));
  EXPECT_EQ(out[256], 1.0f);  // The next block is not concerned.
  EXPECT_EQ(fixed_error_bound(codes[0], n), HUGE_VAL);
}

// Acceptance recipe A6: one rank holds 1e30, the others 1e-30.
TEST(Fixed, ChoosesAScaleAtWhichNothingClips) {
  std::vector<std::vector<float>> inputs(4, std::vector<float>(256, 1e-30f));
  inputs[2].assign(256, 1e30f);
  const std::vector<float> out = all_reduce(inputs, in_order(4), false);
  const double bound = fixed_error_bound(combined_codes(inputs)[0], 4);
  for (float value : out) EXPECT_NEAR(value, 1e30, bound + 1e30 * 0x1p-24);
}

TEST(Fixed, ReturnsPlainZerosForAllZeroBlocks) {
  const std::vector<float> zeros(300, -0.0f);
  EXPECT_EQ(codes_of(zeros)[0], (BlockCode{0, 0}));
  for (float value : all_reduce({zeros, zeros}, in_order(2), false)) {
    EXPECT_TRUE(same_bits(value, 0.0f));
  }
}

TEST(Fixed, EncodesAnElementTheSameInAnyPacket) {
  Prng prng(23);
  std::vector<float> tensor(2000);
  for (float& value : tensor) value = hostile_f32(prng);
  std::fill_n(tensor.begin() + 512, 512, 0.125f);  // Two blocks without NaN and infinity.
  const std::vector<BlockCode> codes = codes_of(tensor);
  const std::vector<int32_t> whole = encoded(tensor, codes, 5);
  for (size_t chunk : {1, 7, 64, 255, 256, 352, 1999}) {
    std::vector<int32_t> pieces(tensor.size());
    std::vector<float> out(tensor.size());
    for (size_t first = 0; first < tensor.size(); first += chunk) {
      const size_t lanes = std::min(chunk, tensor.size() - first);
      std::byte* place = reinterpret_cast<std::byte*>(pieces.data() + first);
      encode_fixed(tensor.data() + first, lanes, first, codes.data() + first / 256, 5, place);
      decode_fixed(place, lanes, first, codes.data() + first / 256, 5, false, out.data() + first);
    }
    EXPECT_EQ(pieces, whole) << chunk;
    for (size_t i = 512; i < 1024; ++i) ASSERT_EQ(out[i], 0.125f) << chunk;
  }
}

TEST(Fixed, EqualsItsScalarTwinOnEveryTarget) {
  Prng prng(24);
  for (size_t lanes : {1, 3, 16, 100, 256, 352, 777}) {
    Buffer source(4 * lanes, prng.below(8));
    // Spells of tame values, so that both kinds of block occur.
    for (size_t i = 0; i < lanes; ++i) {
      const bool tame = (i / 256) % 2 == 0;
      store_unaligned(source.data() + 4 * i, tame ? wide_f32(prng, 1e-30f) : hostile_f32(prng));
    }
    const float* values = reinterpret_cast<const float*>(source.data());
    for (uint64_t first_element : {uint64_t{0}, uint64_t{300}, (uint64_t{1} << 40) + 255}) {
      for (uint32_t n : {1u, 8u, 200u, 1000u, 2000u, 65535u}) {
        std::vector<BlockCode> codes(block_count(lanes) + 1);
        for (size_t i = 0; i < lanes; ++i) {  // Blocks as counted from the tensor's start.
          BlockCode& code = codes[(first_element % 256 + i) / 256];
          const BlockCode own = scalar::block_code(values + i, 1);
          code.exponent = std::max(code.exponent, own.exponent);
          code.nonfinite = std::max(code.nonfinite, own.nonfinite);
        }
        std::vector<int32_t> expected(lanes);
        scalar::encode_fixed(values, lanes, first_element, codes.data(), n,
                             reinterpret_cast<std::byte*>(expected.data()));
        const auto* payload = reinterpret_cast<const std::byte*>(expected.data());
        std::vector<float> sums(lanes);
        std::vector<float> means(lanes);
        scalar::decode_fixed(payload, lanes, first_element, codes.data(), n, false, sums.data());
        scalar::decode_fixed(payload, lanes, first_element, codes.data(), n, true, means.data());
        on_every_target([&] {
          Buffer lanes_out(4 * lanes, 3);
          Buffer floats_out(4 * lanes, 1);
          float* floats = reinterpret_cast<float*>(floats_out.data());
          encode_fixed(values, lanes, first_element, codes.data(), n, lanes_out.data());
          EXPECT_EQ(std::memcmp(lanes_out.data(), expected.data(), 4 * lanes), 0) << lanes;
          decode_fixed(payload, lanes, first_element, codes.data(), n, false, floats);
          EXPECT_EQ(std::memcmp(floats, sums.data(), 4 * lanes), 0) << lanes;
          decode_fixed(payload, lanes, first_element, codes.data(), n, true, floats);
          EXPECT_EQ(std::memcmp(floats, means.data(), 4 * lanes), 0) << lanes;
          EXPECT_TRUE(lanes_out.canaries_intact() && floats_out.canaries_intact());
          const size_t block = std::min<size_t>(lanes, 256);
          EXPECT_EQ(block_code(values, block), scalar::block_code(values, block));
        });
      }
    }
  }
}

TEST(Fixed, DecodesAnySumsAndCodesTheSameOnEveryTarget) {
  Prng prng(25);
  std::vector<int32_t> sums(512);
  for (int trial = 0; trial < 300; ++trial) {
    for (int32_t& sum : sums) sum = static_cast<int32_t>(prng.next_u32());
    const BlockCode codes[2] = {
        {static_cast<uint8_t>(prng.below(256)), 0},
        {static_cast<uint8_t>(prng.below(256)), static_cast<uint8_t>(prng.below(256))}};
    const auto n = static_cast<uint32_t>(1 + prng.below(kGroupSizeMax));
    const auto* payload = reinterpret_cast<const std::byte*>(sums.data());
    std::vector<float> expected(512);
    scalar::decode_fixed(payload, 512, 0, codes, n, trial % 2 == 0, expected.data());
    on_every_target([&] {
      std::vector<float> actual(512);
      decode_fixed(payload, 512, 0, codes, n, trial % 2 == 0, actual.data());
      EXPECT_EQ(std::memcmp(actual.data(), expected.data(), 4 * 512), 0) << trial;
    });
  }
}

TEST(BlockCode, IsTheExponentOfTheLargestFiniteMagnitude) {
  on_every_target([] {
    const auto code = [](std::vector<float> values) {
      return block_code(values.data(), values.size());
    };
    EXPECT_EQ(code({1.0f, -2.0f}), (BlockCode{128, 0}));
    EXPECT_EQ(code({kLargest}), (BlockCode{254, 0}));
    EXPECT_EQ(code({1e-45f}), (BlockCode{0, 0}));
    // A NaN hides neither what comes before it nor what follows.
    EXPECT_EQ(code({4.0f, NAN, 1.0f, -INFINITY, 0.5f}), (BlockCode{129, 1}));
    EXPECT_EQ(code({NAN, 1.0f, 4.0f}), (BlockCode{129, 1}));
    EXPECT_EQ(code({INFINITY}), (BlockCode{0, 1}));
  });
}

}  // namespace
}  // namespace sumcast::numeric
