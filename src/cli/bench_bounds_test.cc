#include "cli/bench_bounds.h"

#include <gtest/gtest.h>

#include "cli/bench_statistics.h"

namespace sumcast::cli {
namespace {

constexpr uint64_t kRate = 300'000'000;
constexpr DatagramShape kShape = {1424, true};

ContenderSpec spec_of(Algorithm algorithm) {
  ContenderSpec spec;
  spec.algorithm = algorithm;
  return spec;
}

BenchCase tensor(uint64_t bytes, Collective collective = Collective::kAllReduce) {
  return make_case(collective, ElementType::kF32, Reduction::kSum, WireFormat::kNative, 0, bytes,
                   8);
}

TEST(BenchBounds, CountsWhatTheQueueingDisciplineCounts) {
  EXPECT_EQ(frame_bytes(1408, true), 1498u);
  EXPECT_EQ(frame_bytes(8, false), 82u);
  EXPECT_EQ(tensor_frame_bytes(tensor(8), WireFormat::kNative, kShape), 98u);
}

TEST(BenchBounds, NeedsSevenHundredAndFortyFourMillisecondsFor25MebibytesAt300Megabits) {
  const auto bound =
      bound_us(spec_of(Algorithm::kInNetwork), tensor(25 << 20), 8, 1, kRate, kShape);
  ASSERT_TRUE(bound);
  // 18,618 chunks of 352 lanes and one of 64.
  EXPECT_NEAR(*bound, (18618.0 * 1498 + 346) * 8e6 / kRate, 1.0);
}

TEST(BenchBounds, HalvesWithSixteenBitsOnTheWire) {
  BenchCase bench = tensor(25 << 20);
  const double native = *bound_us(spec_of(Algorithm::kInNetwork), bench, 8, 1, kRate, kShape);
  bench.wire = WireFormat::kBF16;
  const double half = *bound_us(spec_of(Algorithm::kInNetwork), bench, 8, 1, kRate, kShape);
  EXPECT_NEAR(half / native, 0.5, 0.01);
  // Baselines do not compress.
  EXPECT_GT(*bound_us(spec_of(Algorithm::kRing), bench, 8, 1, kRate, kShape), native);
}

TEST(BenchBounds, DiffersByAlgorithmAndCollective) {
  const auto bound = [](Algorithm algorithm, Collective collective) {
    return *bound_us(spec_of(algorithm), tensor(1 << 20, collective), 8, 1, kRate, kShape);
  };
  const double once = bound(Algorithm::kInNetwork, Collective::kAllReduce);
  EXPECT_DOUBLE_EQ(bound(Algorithm::kAuto, Collective::kAllReduce), once);
  EXPECT_NEAR(bound(Algorithm::kDirect, Collective::kAllReduce), 1.75 * once, 1e-6);
  EXPECT_NEAR(bound(Algorithm::kServer, Collective::kAllReduce), 8 * once, 1e-6);
  EXPECT_NEAR(bound(Algorithm::kDirect, Collective::kReduce), 7 * once, 1e-6);
  EXPECT_NEAR(bound(Algorithm::kInNetwork, Collective::kAllGather), 0.875 * once, 1e-6);
  EXPECT_NEAR(bound(Algorithm::kRing, Collective::kAllReduce),
              1.75 * (1 << 20) * 1514 / 1448 * 8e6 / kRate, 1e-6);
}

TEST(BenchBounds, HasNoneWithoutARateOrBytes) {
  EXPECT_FALSE(bound_us(spec_of(Algorithm::kDirect), tensor(8), 8, 1, 0, kShape));
  const BenchCase barrier = make_case(Collective::kBarrier, ElementType::kF32, Reduction::kCopy,
                                      WireFormat::kNative, 0, 0, 8);
  EXPECT_FALSE(bound_us(spec_of(Algorithm::kDirect), barrier, 8, 1, kRate, kShape));
}

TEST(BenchStatistics, TakesTheMiddle) {
  EXPECT_EQ(median(std::vector<double>{}), 0);
  EXPECT_EQ(median(std::vector<double>{3, 1, 2}), 2);
  EXPECT_EQ(median(std::vector<double>{4, 1, 2, 3}), 2.5);
}

TEST(BenchStatistics, DescribesTheSpread) {
  const Spread one = spread(std::vector<double>{7});
  EXPECT_EQ(one.p99, 7);
  EXPECT_EQ(one.cv_percent, 0);
  const Spread two = spread(std::vector<double>{2, 4});
  EXPECT_EQ(two.min, 2);
  EXPECT_EQ(two.max, 4);
  EXPECT_EQ(two.p99, 4);
  EXPECT_NEAR(two.cv_percent, 47.14, 0.01);
}

TEST(BenchStatistics, JoinsRanksAsNcclTestsDoes) {
  const std::vector<double> times = {4, 1, 7};
  EXPECT_EQ(over_ranks(times, 0), 4);
  EXPECT_EQ(over_ranks(times, 1), 4);
  EXPECT_EQ(over_ranks(times, 2), 1);
  EXPECT_EQ(over_ranks(times, 3), 7);
}

TEST(BenchBounds, CountsHostsWhereRanksShareThem) {
  const auto bound = [](Algorithm algorithm, const BenchCase& bench, uint32_t per_host) {
    return bound_us(spec_of(algorithm), bench, 8, per_host, kRate, kShape);
  };
  const BenchCase bench = tensor(1 << 20);
  const double once = *bound(Algorithm::kInNetwork, bench, 1);
  EXPECT_DOUBLE_EQ(*bound(Algorithm::kInNetwork, bench, 4), once);
  EXPECT_DOUBLE_EQ(*bound(Algorithm::kDirect, bench, 4), once);  // 2 (2 - 1) / 2.
  EXPECT_FALSE(bound(Algorithm::kDirect, bench, 8));
  BenchCase halves = make_case(Collective::kAllReduce, ElementType::kBF16, Reduction::kSum,
                               WireFormat::kNative, 0, 1 << 20, 8);
  EXPECT_NEAR(*bound(Algorithm::kInNetwork, halves, 4), 2 * once, once / 100);
  halves.reduction = Reduction::kMax;  // Exact as they are.
  EXPECT_NEAR(*bound(Algorithm::kInNetwork, halves, 4), once, once / 100);
}

}  // namespace
}  // namespace sumcast::cli
