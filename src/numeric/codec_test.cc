// bf16, fp16 and int8 payloads: equal on every target, within their bounds, honest about NaN.
#include "numeric/codec.h"

#include <cmath>
#include <numeric>

#include "numeric/codec_scalar.h"
#include "numeric/element_traits.h"
#include "numeric/test_support.h"

namespace sumcast::numeric {
namespace {

constexpr WireFormat kEncoded[] = {WireFormat::kBF16, WireFormat::kFP16, WireFormat::kInt8};

// Payloads of several ranks, with the pointers that fold_encoded wants.
class Ranks {
 public:
  Ranks(WireFormat format, const std::vector<std::vector<float>>& inputs) {
    for (const std::vector<float>& input : inputs) {
      payloads_.emplace_back(payload_bytes(ElementType::kF32, format, input.size()),
                             payloads_.size() % 5);
      encode(format, input.data(), input.size(), payloads_.back().data());
    }
    for (const Buffer& payload : payloads_) sources_.push_back(payload.data());
  }
  const std::byte* const* sources() const { return sources_.data(); }
  size_t count() const { return sources_.size(); }

 private:
  std::vector<Buffer> payloads_;
  std::vector<const std::byte*> sources_;
};

std::vector<float> all_reduce(WireFormat format, Reduction reduction,
                              const std::vector<std::vector<float>>& inputs) {
  const Ranks ranks(format, inputs);
  const size_t lanes = inputs[0].size();
  Buffer result(payload_bytes(ElementType::kF32, format, lanes), 1);
  fold_encoded(format, reduction, ranks.sources(), ranks.count(), lanes,
               static_cast<uint32_t>(inputs.size()), result.data());
  std::vector<float> out(lanes);
  decode(format, result.data(), lanes, out.data());
  return out;
}

TEST(Codec, EqualsItsScalarTwinOnEveryTarget) {
  Prng prng(11);
  for (WireFormat format : kEncoded) {
    for (size_t lanes : {0, 1, 5, 16, 33, 255, 256, 257, 352, 700}) {
      Buffer source(4 * lanes, 3);
      for (size_t i = 0; i < lanes; ++i) {
        store_unaligned(source.data() + 4 * i, hostile_f32_bits(prng));
      }
      const float* values = reinterpret_cast<const float*>(source.data());
      const size_t bytes = payload_bytes(ElementType::kF32, format, lanes);
      Buffer expected(bytes, 0);
      Buffer expected_back(4 * lanes, 0);
      scalar::encode(format, values, lanes, expected.data());
      scalar::decode(format, expected.data(), lanes,
                     reinterpret_cast<float*>(expected_back.data()));
      on_every_target([&] {
        Buffer payload(bytes, 7);
        Buffer back(4 * lanes, 2);
        encode(format, values, lanes, payload.data());
        decode(format, payload.data(), lanes, reinterpret_cast<float*>(back.data()));
        EXPECT_EQ(std::memcmp(payload.data(), expected.data(), bytes), 0)
            << name_of(format) << lanes;
        EXPECT_EQ(std::memcmp(back.data(), expected_back.data(), 4 * lanes), 0)
            << name_of(format) << lanes;
        EXPECT_TRUE(payload.canaries_intact());
        EXPECT_TRUE(back.canaries_intact());
      });
    }
  }
}

TEST(Codec, FoldsAnyBytesAsItsScalarTwinDoes) {
  Prng prng(12);
  for (WireFormat format : kEncoded) {
    for (Reduction reduction : {Reduction::kSum, Reduction::kAvg, Reduction::kMin, Reduction::kMax,
                                Reduction::kProduct}) {
      if (!wire_format_applies(ElementType::kF32, reduction, format)) continue;
      for (size_t count : {1, 2, 3, 8, 9}) {
        for (size_t lanes : {1, 31, 256, 300, 523}) {
          const size_t bytes = payload_bytes(ElementType::kF32, format, lanes);
          std::vector<Buffer> payloads;
          std::vector<const std::byte*> sources;
          for (size_t k = 0; k < count; ++k) {
            payloads.emplace_back(bytes, prng.below(64));
            for (size_t i = 0; i < bytes; ++i) {
              payloads.back().data()[i] = static_cast<std::byte>(prng.next_u32() & 0xFF);
            }
          }
          for (const Buffer& payload : payloads) sources.push_back(payload.data());
          Buffer expected(bytes, 0);
          scalar::fold_encoded(format, reduction, sources.data(), count, lanes, 9, expected.data());
          on_every_target([&] {
            Buffer actual(bytes, 5);
            fold_encoded(format, reduction, sources.data(), count, lanes, 9, actual.data());
            EXPECT_EQ(std::memcmp(actual.data(), expected.data(), bytes), 0)
                << name_of(format) << name_of(reduction) << count << ' ' << lanes;
            EXPECT_TRUE(actual.canaries_intact());
          });
        }
      }
    }
  }
}

TEST(Codec, MayWriteItsSumOverAnyOneSource) {
  const std::vector<std::vector<float>> inputs(3, std::vector<float>(300, 1.5f));
  for (WireFormat format : kEncoded) {
    for (size_t target = 0; target < 3; ++target) {
      const Ranks ranks(format, inputs);
      std::byte* out = const_cast<std::byte*>(ranks.sources()[target]);
      fold_encoded(format, Reduction::kSum, ranks.sources(), 3, 300, 3, out);
      std::vector<float> back(300);
      decode(format, out, 300, back.data());
      for (float value : back) EXPECT_NEAR(value, 4.5f, 0.02f);
    }
  }
}

// docs/numerics.md N12 and N13.
double stated_bound(WireFormat format, double magnitudes, double block_maxima, double n) {
  if (format == WireFormat::kInt8) {
    return (1.0 / 125 + n * 0x1p-23) * block_maxima + (n + 1) * 0x1p-142;
  }
  const double unit = format == WireFormat::kBF16 ? 0x1p-8 : 0x1p-11;
  const double smallest = format == WireFormat::kBF16 ? 0x1p-133 : 0x1p-24;
  return (2.01 * unit + n * 0x1p-23) * magnitudes + (n + 1) * smallest;
}

void check_bound(WireFormat format, const std::vector<std::vector<float>>& inputs) {
  const size_t lanes = inputs[0].size();
  const double n = static_cast<double>(inputs.size());
  const std::vector<float> sum = all_reduce(format, Reduction::kSum, inputs);
  const std::vector<float> average = all_reduce(format, Reduction::kAvg, inputs);
  std::vector<double> block_maxima((lanes + kBlockLanes - 1) / kBlockLanes, 0.0);
  for (const auto& input : inputs) {
    for (size_t block = 0; block < block_maxima.size(); ++block) {
      double largest = 0;
      for (size_t i = block * kBlockLanes; i < std::min(lanes, (block + 1) * kBlockLanes); ++i) {
        largest = std::max(largest, std::fabs(static_cast<double>(input[i])));
      }
      block_maxima[block] += largest;
    }
  }
  for (size_t i = 0; i < lanes; ++i) {
    double exact = 0;
    double magnitudes = 0;
    for (const auto& input : inputs) {
      exact += input[i];
      magnitudes += std::fabs(static_cast<double>(input[i]));
    }
    const double bound = stated_bound(format, magnitudes, block_maxima[i / kBlockLanes], n);
    ASSERT_LE(std::fabs(sum[i] - exact), bound) << name_of(format) << ' ' << n << ' ' << i;
    const double floor = stated_bound(format, 0, 0, n);  // The result's own denormals remain.
    ASSERT_LE(std::fabs(average[i] - exact / n), bound / n + floor)
        << name_of(format) << ' ' << n << ' ' << i;
  }
}

TEST(Codec, StaysWithinItsStatedErrorBound) {
  Prng prng(13);
  for (WireFormat format : kEncoded) {
    // Per format, limits whose sums do not overflow; the last is deep among f32's denormals.
    const bool half = format == WireFormat::kFP16;
    for (float limit : {1.0f, half ? 500.0f : 1e36f, half ? 1e-5f : 1e-30f, 1e-41f}) {
      for (size_t n : {1, 2, 3, 8, 64}) {
        std::vector<std::vector<float>> inputs(n, std::vector<float>(600));
        for (auto& input : inputs) {
          for (float& value : input) value = wide_f32(prng, limit);
        }
        on_every_target([&] { check_bound(format, inputs); });
        if (HasFailure()) return;
      }
    }
  }
}

TEST(Codec, NeverTurnsNanOrInfinityIntoNumbers) {
  for (WireFormat format : kEncoded) {
    for (size_t holder = 0; holder < 3; ++holder) {
      std::vector<std::vector<float>> inputs(3, std::vector<float>(300, 2.0f));
      inputs[holder][1] = NAN;
      inputs[holder][17] = INFINITY;
      inputs[holder][40] = -INFINITY;
      inputs[holder][299] = INFINITY;
      inputs[(holder + 1) % 3][299] = -INFINITY;
      on_every_target([&] {
        const std::vector<float> sum = all_reduce(format, Reduction::kSum, inputs);
        EXPECT_EQ(std::bit_cast<uint32_t>(sum[1]), kCanonicalNanF32);
        EXPECT_EQ(sum[17], INFINITY);
        EXPECT_EQ(sum[40], -INFINITY);
        EXPECT_EQ(std::bit_cast<uint32_t>(sum[299]), kCanonicalNanF32);
        for (size_t i : {0, 2, 16, 18, 255, 256, 298}) EXPECT_NEAR(sum[i], 6.0f, 0.05f) << i;
      });
    }
  }
}

TEST(Int8, HoldsTheLargestFloatsZerosAndDenormals) {
  const float largest = std::numeric_limits<float>::max();
  on_every_target([&] {
    std::vector<float> input(256, -largest);
    input[3] = 0.0f;
    const std::vector<float> out = all_reduce(WireFormat::kInt8, Reduction::kSum, {input});
    EXPECT_TRUE(std::isfinite(out[0]));
    EXPECT_NEAR(out[0] / largest, -1.0f, 0.001f);
    EXPECT_EQ(out[3], 0.0f);
    const std::vector<float> zeros(70, 0.0f);
    EXPECT_EQ(all_reduce(WireFormat::kInt8, Reduction::kAvg, {zeros, zeros}), zeros);
    const std::vector<float> mixed{0.0f, NAN, INFINITY};
    const std::vector<float> mixed_out = all_reduce(WireFormat::kInt8, Reduction::kSum, {mixed});
    EXPECT_EQ(mixed_out[0], 0.0f);
    EXPECT_TRUE(std::isnan(mixed_out[1]));
    EXPECT_EQ(mixed_out[2], INFINITY);
  });
}

// Products of code and scale are then exact, whatever a compiler fuses and a peer sends.
TEST(Int8, WritesAndReadsScalesOfSeventeenBits) {
  Prng prng(14);
  on_every_target([&] {
    for (int trial = 0; trial < 200; ++trial) {
      float values[2] = {hostile_f32(prng), hostile_f32(prng)};
      std::byte block[6];
      encode(WireFormat::kInt8, values, 2, block);
      const uint32_t scale = load_unaligned<uint32_t>(block);
      ASSERT_EQ(scale & 0x8000007Fu, 0u);
      float clean[2];
      float dirty[2];
      decode(WireFormat::kInt8, block, 2, clean);
      store_unaligned(block, scale | 0x8000007Fu);
      decode(WireFormat::kInt8, block, 2, dirty);
      ASSERT_TRUE(same_bits(clean[0], dirty[0]) && same_bits(clean[1], dirty[1]));
    }
  });
}

TEST(Int8, KeepsBlocksApart) {
  std::vector<float> input(512, 1e-6f);
  std::fill_n(input.begin(), 256, 1e6f);
  const std::vector<float> out = all_reduce(WireFormat::kInt8, Reduction::kSum, {input});
  EXPECT_NEAR(out[511], 1e-6f, 1e-8f);
}

TEST(ChunkSizes, FillAPayloadWithWholeLinesOrBlocks) {
  constexpr auto kF32 = ElementType::kF32;
  constexpr auto kF64 = ElementType::kF64;
  using enum WireFormat;
  EXPECT_EQ(lanes_per_chunk(kF32, kNative, 1420), 352u);
  EXPECT_EQ(lanes_per_chunk(kF64, kNative, 1420), 176u);
  EXPECT_EQ(lanes_per_chunk(ElementType::kU8, kNative, 1420), 1408u);
  EXPECT_EQ(lanes_per_chunk(kF32, kBF16, 1420), 704u);
  EXPECT_EQ(lanes_per_chunk(kF32, kInt8, 1420), 1280u);
  EXPECT_EQ(lanes_per_chunk(kF32, kFixed, 1420), 352u);
  EXPECT_EQ(lanes_per_chunk(kF32, kNative, 63), 15u);
  EXPECT_EQ(lanes_per_chunk(kF64, kNative, 8), 1u);
  EXPECT_EQ(lanes_per_chunk(kF32, kInt8, 100), 96u);
  EXPECT_EQ(payload_bytes(kF32, kInt8, 257), 265u);
  EXPECT_EQ(payload_bytes(kF32, kInt8, 0), 0u);
  for (WireFormat format : {kNative, kBF16, kFP16, kInt8, kFixed}) {
    for (size_t bytes = 8; bytes < 9000; ++bytes) {
      const size_t lanes = lanes_per_chunk(kF32, format, bytes);
      ASSERT_GE(lanes, 1u);
      ASSERT_LE(payload_bytes(kF32, format, lanes), bytes);
    }
  }
}

TEST(WireFormats, ApplyWhereDocumented) {
  EXPECT_TRUE(wire_format_applies(ElementType::kI64, Reduction::kXor, WireFormat::kNative));
  EXPECT_FALSE(wire_format_applies(ElementType::kF64, Reduction::kSum, WireFormat::kBF16));
  EXPECT_TRUE(wire_format_applies(ElementType::kF32, Reduction::kMax, WireFormat::kFP16));
  EXPECT_FALSE(wire_format_applies(ElementType::kF32, Reduction::kMax, WireFormat::kInt8));
  EXPECT_FALSE(wire_format_applies(ElementType::kF32, Reduction::kProduct, WireFormat::kFixed));
  EXPECT_TRUE(wire_format_applies(ElementType::kF32, Reduction::kAvg, WireFormat::kFixed));
}

}  // namespace
}  // namespace sumcast::numeric
