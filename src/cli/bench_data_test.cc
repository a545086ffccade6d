#include "cli/bench_data.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include "numeric/fold.h"

namespace sumcast::cli {
namespace {

BenchCase case_of(Collective collective, uint64_t bytes, ElementType type = ElementType::kF32,
                  Reduction reduction = Reduction::kSum, WireFormat wire = WireFormat::kNative) {
  return make_case(collective, type, reduction, wire, 1, bytes, 3);
}

template <typename T>
std::vector<T> input_of(const BenchData& data, uint32_t rank) {
  std::vector<T> values(data.input_elements());
  data.fill(rank, 0, values.size(), reinterpret_cast<std::byte*>(values.data()));
  return values;
}

template <typename T>
uint64_t wrong_in(const BenchData& data, const std::vector<T>& output) {
  return data.count_wrong(reinterpret_cast<const std::byte*>(output.data()));
}

TEST(BenchData, MakesAnyElementWithoutThoseBeforeIt) {
  const BenchData data(case_of(Collective::kAllReduce, 4000), true, 3, 7);
  const auto all = input_of<float>(data, 2);
  std::vector<float> some(100);
  data.fill(2, 555, some.size(), reinterpret_cast<std::byte*>(some.data()));
  EXPECT_EQ(std::memcmp(some.data(), all.data() + 555, 400), 0);
}

TEST(BenchData, DrawsFiniteFloatsOfManySizesThatDifferByRankAndSeed) {
  const BenchData data(case_of(Collective::kAllReduce, 400'000), true, 3, 7);
  const auto values = input_of<float>(data, 0);
  std::set<int> exponents;
  int negative = 0;
  for (const float value : values) {
    ASSERT_TRUE(std::isfinite(value));
    exponents.insert(std::ilogb(value));
    negative += std::signbit(value);
  }
  EXPECT_GT(exponents.size(), 250u);
  EXPECT_NEAR(negative, 50'000, 2'000);
  EXPECT_NE(values, input_of<float>(data, 1));
  const BenchData other(case_of(Collective::kAllReduce, 400'000), true, 3, 8);
  EXPECT_NE(values, input_of<float>(other, 0));
}

TEST(BenchData, LeavesPiecesOfZerosOfEachRanksOwn) {
  BenchCase bench = case_of(Collective::kAllReduce, 640'000);
  bench.density_millionths = 100'000;
  BenchData data(bench, true, 3, 7);
  const auto a = input_of<float>(data, 0), b = input_of<float>(data, 1);
  int kept = 0, both = 0;
  for (size_t piece = 0; piece < 10'000; ++piece) {
    const auto is_kept = [&](const std::vector<float>& values) {
      const auto begin = values.begin() + static_cast<std::ptrdiff_t>(16 * piece);
      return std::any_of(begin, begin + 16, [](float v) { return v != 0; });
    };
    kept += is_kept(a);
    both += is_kept(a) && is_kept(b);
  }
  EXPECT_NEAR(kept, 1000, 150);
  EXPECT_NEAR(both, 100, 50);
  data.expect(0);
  const auto c = input_of<float>(data, 2);
  std::vector<float> sum(a.size());
  for (size_t i = 0; i < sum.size(); ++i) sum[i] = a[i] + b[i] + c[i];
  EXPECT_EQ(wrong_in(data, sum), 0u);
}

TEST(BenchData, ExpectsTheCanonicalFoldAndCountsEachWrongElement) {
  BenchData data(case_of(Collective::kAllReduce, 200'000), true, 3, 7);  // Several blocks.
  data.expect(0);
  std::vector<std::vector<float>> inputs;
  for (uint32_t rank = 0; rank < 3; ++rank) inputs.push_back(input_of<float>(data, rank));
  std::vector<float> sum(data.output_elements());
  for (size_t i = 0; i < sum.size(); ++i) sum[i] = inputs[0][i] + inputs[1][i] + inputs[2][i];
  EXPECT_EQ(wrong_in(data, sum), 0u);
  std::vector<float> other_order(sum.size());
  for (size_t i = 0; i < sum.size(); ++i) {
    other_order[i] = inputs[0][i] + (inputs[1][i] + inputs[2][i]);
  }
  EXPECT_GT(wrong_in(data, other_order), 1000u);  // The data tell orders apart.
  sum[0] = std::nextafter(sum[0], INFINITY);
  sum[20'000] = -sum[20'000];
  sum.back() = NAN;
  EXPECT_EQ(wrong_in(data, sum), 3u);
}

TEST(BenchData, GivesBaselinesSumsThatAreExactInAnyOrder) {
  for (const Reduction reduction : {Reduction::kSum, Reduction::kProduct, Reduction::kAvg}) {
    BenchData data(case_of(Collective::kAllReduce, 4000, ElementType::kF32, reduction), false, 3,
                   7);
    data.expect(2);
    const auto a = input_of<float>(data, 0), b = input_of<float>(data, 1),
               c = input_of<float>(data, 2);
    std::vector<float> out(a.size());
    for (size_t i = 0; i < out.size(); ++i) {
      out[i] = reduction == Reduction::kProduct ? c[i] * (b[i] * a[i]) : c[i] + (b[i] + a[i]);
      if (reduction == Reduction::kAvg) out[i] /= 3;
    }
    EXPECT_EQ(wrong_in(data, out), 0u) << name_of(reduction);
  }
}

TEST(BenchData, KeepsSixteenBitSumsExactForBaselines) {
  for (const ElementType type : {ElementType::kF16, ElementType::kBF16}) {
    BenchData data(case_of(Collective::kAllReduce, 2000, type), false, 3, 7);
    data.expect(0);
    const auto a = input_of<uint16_t>(data, 0), b = input_of<uint16_t>(data, 1),
               c = input_of<uint16_t>(data, 2);
    const auto add = [&](const uint16_t* x, const uint16_t* y, uint16_t* out) {
      const std::byte* sources[] = {reinterpret_cast<const std::byte*>(x),
                                    reinterpret_cast<const std::byte*>(y)};
      numeric::fold(type, Reduction::kSum, sources, 2, a.size(), 2,
                    reinterpret_cast<std::byte*>(out));
    };
    std::vector<uint16_t> out(a.size());
    add(b.data(), c.data(), out.data());    // Another order than the canonical one,
    add(out.data(), a.data(), out.data());  // and rounded in between.
    EXPECT_EQ(wrong_in(data, out), 0u) << name_of(type);
  }
}

TEST(BenchData, KnowsWhatMovesWithoutBeingAdded) {
  BenchData broadcast(case_of(Collective::kBroadcast, 4000), true, 3, 7);
  broadcast.expect(0);
  EXPECT_EQ(wrong_in(broadcast, input_of<float>(broadcast, 1)), 0u);
  EXPECT_NE(wrong_in(broadcast, input_of<float>(broadcast, 0)), 0u);

  BenchData gather(case_of(Collective::kAllGather, 300'000), true, 3, 7);
  gather.expect(2);
  std::vector<float> all;
  for (uint32_t rank = 0; rank < 3; ++rank) {
    const auto part = input_of<float>(gather, rank);
    all.insert(all.end(), part.begin(), part.end());
  }
  EXPECT_EQ(wrong_in(gather, all), 0u);
}

TEST(BenchData, ScattersTheFoldByRank) {
  BenchData data(case_of(Collective::kReduceScatter, 9600), true, 3, 7);
  data.expect(2);
  std::vector<float> out(data.output_elements());
  const auto a = input_of<float>(data, 0), b = input_of<float>(data, 1),
             c = input_of<float>(data, 2);
  ASSERT_EQ(a.size(), out.size() * 3);
  for (size_t i = 0; i < out.size(); ++i) {
    const size_t at = 2 * out.size() + i;
    out[i] = a[at] + b[at] + c[at];
  }
  EXPECT_EQ(wrong_in(data, out), 0u);
}

TEST(BenchData, ExpectsReducedWireFormatsToRoundAsTheirCodecDoes) {
  for (const WireFormat wire :
       {WireFormat::kBF16, WireFormat::kFP16, WireFormat::kInt8, WireFormat::kFixed}) {
    const BenchCase bench =
        case_of(Collective::kAllReduce, 100'000, ElementType::kF32, Reduction::kSum, wire);
    BenchData data(bench, true, 3, 7), plain(case_of(Collective::kAllReduce, 100'000), true, 3, 7);
    data.expect(0);
    plain.expect(0);
    std::vector<float> exact(data.output_elements());
    const auto a = input_of<float>(data, 0), b = input_of<float>(data, 1),
               c = input_of<float>(data, 2);
    for (size_t i = 0; i < exact.size(); ++i) exact[i] = a[i] + b[i] + c[i];
    EXPECT_EQ(wrong_in(plain, exact), 0u);
    EXPECT_GT(wrong_in(data, exact), exact.size() / 4) << name_of(wire);
  }
}

TEST(BenchData, DigestsEveryByteAndTheLength) {
  std::vector<std::byte> bytes(77);
  const uint64_t before = digest_of(bytes.data(), bytes.size());
  EXPECT_NE(before, digest_of(bytes.data(), 76));
  for (auto& byte : bytes) {
    byte ^= std::byte{1};
    EXPECT_NE(before, digest_of(bytes.data(), bytes.size()));
    byte ^= std::byte{1};
  }
}

}  // namespace
}  // namespace sumcast::cli
