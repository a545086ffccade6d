// Sums of tensors that are zeros for the most part: the same bits in fewer bytes (P25).
#include <gtest/gtest.h>

#include <cstring>

#include "collective/test_cluster.h"
#include "numeric/codec.h"

namespace sumcast::collective {
namespace {

/// Rows of 16, a share of which is not zero; some of the zeros are negative.
std::vector<float> sparse_floats(size_t count, double density, uint64_t seed) {
  std::vector<float> values = random_floats(count, seed);
  Prng prng(seed + 7);
  for (size_t row = 0; row < count; row += 16) {
    if (prng.unit() < density) continue;
    const float zero = prng.below(200) == 0 ? -0.0f : 0.0f;
    std::fill(values.begin() + static_cast<std::ptrdiff_t>(row),
              values.begin() + static_cast<std::ptrdiff_t>(std::min(count, row + 16)), zero);
  }
  return values;
}

struct Sum {
  size_t count;
  WireFormat format = WireFormat::kNative;
  wire::OperationKind kind = wire::OperationKind::kAllReduce;
};

/// Posts the same sum on all ranks. @return what each received.
std::vector<std::vector<float>> sum_on_all(Cluster& cluster, const Sum& sum,
                                           const std::vector<std::vector<float>>& inputs) {
  std::vector<std::vector<float>> outputs(inputs.size(), std::vector<float>(sum.count, 5.0f));
  cluster.on_all([&](size_t i) {
    wire::OperationDescriptor d;
    d.kind = sum.kind;
    d.count = sum.count;
    d.format = sum.format;
    auto op = cluster.engines[i]->submit(GroupId(0), cluster.route(), d, inputs[i].data(),
                                         outputs[i].data());
    ASSERT_TRUE(op.has_value()) << op.error().what;
    ASSERT_TRUE(cluster.engines[i]->wait(**op, runtime::monotonic_now() + 10s))
        << cluster.state_text(i);
    ASSERT_FALSE((*op)->error.has_value()) << (*op)->error->what;
  });
  return outputs;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

uint64_t compact_contributions(Cluster& cluster) {
  uint64_t total = 0;
  for (auto& engine : cluster.engines) total += engine->counters().compact;
  return total;
}

TEST(CompactSums, AreTheCanonicalOnesAtAnyDensity) {
  for (const bool aggregator : {true, false}) {
    Cluster cluster(3, {.aggregator = aggregator, .compact_always = true});
    for (const double density : {0.0, 0.02, 0.3, 0.6, 1.0}) {
      std::vector<std::vector<float>> inputs;
      for (size_t i = 0; i < 3; ++i) inputs.push_back(sparse_floats(100'003, density, i));
      const auto want = canonical_sum(inputs);
      for (const auto& got : sum_on_all(cluster, {want.size()}, inputs)) {
        ASSERT_TRUE(same_bits(got, want)) << density;
      }
    }
    EXPECT_GT(compact_contributions(cluster), 100u);
    EXPECT_GT(cluster.shard_work(ShardWork::kCompact), 100u);
  }
}

TEST(CompactSums, OfARankThatHasAllAndOneThatHasNothing) {
  Cluster cluster(2, {.aggregator = true, .compact_always = true});
  const size_t count = 50'000;
  const std::vector<std::vector<float>> inputs{random_floats(count, 1), std::vector<float>(count)};
  for (const auto& got : sum_on_all(cluster, {count}, inputs)) {
    EXPECT_TRUE(same_bits(got, canonical_sum(inputs)));
  }
  EXPECT_EQ(cluster.engines[0]->counters().compact, 0u);
  EXPECT_GT(cluster.engines[1]->counters().compact, 0u);
  EXPECT_EQ(cluster.shard_work(ShardWork::kCompact), 0u) << "sums have no zeros";
}

TEST(CompactSums, DenseTensorsTravelAsTheyAre) {
  Cluster cluster(2, {.aggregator = true, .compact_always = true});
  check_all_reduce(cluster, 50'000, 1, WireFormat::kNative);
  EXPECT_EQ(compact_contributions(cluster), 0u);
  EXPECT_EQ(cluster.shard_work(ShardWork::kCompact), 0u);
}

TEST(CompactSums, AreNotMadeWhereNothingIsKnownOfTheLink) {
  Cluster cluster(2, {.aggregator = true});
  const std::vector<std::vector<float>> inputs(2, std::vector<float>(5'000));
  for (const auto& got : sum_on_all(cluster, {5'000}, inputs)) {
    EXPECT_TRUE(same_bits(got, inputs[0]));
  }
  EXPECT_EQ(compact_contributions(cluster), 0u);
}

TEST(CompactSums, TakeFewerBytes) {
  Cluster cluster(2, {.aggregator = true, .compact_always = true});
  const size_t count = 356 * 300;
  std::vector<std::vector<float>> inputs{random_floats(count, 1), random_floats(count, 2)};
  (void)sum_on_all(cluster, {count}, inputs);
  const uint64_t dense = cluster.shard_work(ShardWork::kBytesSent);
  for (size_t i = 0; i < 2; ++i) inputs[i] = sparse_floats(count, 0.01, 0);
  (void)sum_on_all(cluster, {count}, inputs);
  EXPECT_LT(cluster.shard_work(ShardWork::kBytesSent) - dense, dense / 4);
}

TEST(CompactSums, GiveTheSameBitsUnderLossDuplicationAndReordering) {
  net::FaultPlan faults;
  faults.loss = 0.03;
  faults.duplicate = 0.02;
  faults.reorder = 0.02;
  for (const bool aggregator : {true, false}) {
    Cluster cluster(3, {.aggregator = aggregator, .faults = faults, .compact_always = true});
    for (uint64_t round = 0; round < 3; ++round) {
      std::vector<std::vector<float>> inputs;
      for (size_t i = 0; i < 3; ++i) inputs.push_back(sparse_floats(120'000, 0.2, 3 * round + i));
      const auto want = canonical_sum(inputs);
      for (const auto& got : sum_on_all(cluster, {want.size()}, inputs)) {
        ASSERT_TRUE(same_bits(got, want)) << round;
      }
    }
    EXPECT_GT(compact_contributions(cluster), 100u);
  }
}

/// Whether a chunk is compact depends on where zeros lie; what it says does not.
TEST(CompactSums, HaveTheBitsOfEncodedPayloads) {
  for (const WireFormat format :
       {WireFormat::kBF16, WireFormat::kFP16, WireFormat::kInt8, WireFormat::kFixed}) {
    Cluster cluster(2, {.aggregator = true, .compact_always = true});
    const size_t count = 60'000;
    const std::vector<std::vector<float>> inputs{sparse_floats(count, 0.1, 1),
                                                 sparse_floats(count, 0.1, 2)};
    const auto got = sum_on_all(cluster, {count, format}, inputs);
    EXPECT_TRUE(same_bits(got[0], got[1]));
    EXPECT_GT(compact_contributions(cluster), 0u) << static_cast<int>(format);
    // The same lanes, none of which can be left out: each has a neighbour that is not zero.
    if (format != WireFormat::kBF16 && format != WireFormat::kFP16) continue;
    std::vector<std::vector<float>> spread(2, std::vector<float>(4 * count, 1.0f));
    for (size_t i = 0; i < 2; ++i) {
      for (size_t at = 0; at < count; ++at) spread[i][4 * at] = inputs[i][at];
    }
    const auto dense = sum_on_all(cluster, {4 * count, format}, spread);
    for (size_t at = 0; at < count; ++at) ASSERT_EQ(got[0][at], dense[0][4 * at]) << at;
  }
}

TEST(CompactSums, QuietMembersAreSentNoLanes) {
  for (const bool aggregator : {true, false}) {
    Cluster cluster(3, {.aggregator = aggregator, .compact_always = true});
    const size_t count = 40'000;
    std::vector<std::vector<float>> inputs;
    for (size_t i = 0; i < 3; ++i) inputs.push_back(sparse_floats(count, 0.1, i));
    const auto got =
        sum_on_all(cluster, {count, WireFormat::kNative, wire::OperationKind::kReduce}, inputs);
    EXPECT_TRUE(same_bits(got[0], canonical_sum(inputs)));
    EXPECT_TRUE(same_bits(got[1], std::vector<float>(count, 5.0f)));
    EXPECT_GT(compact_contributions(cluster), 0u);
  }
}

TEST(CompactSums, AreSentToAllAtOnceToo) {
  Cluster cluster(3, {.aggregator = true, .compact_always = true});
  for (int i = 0; i < 400 && cluster.shard_work(ShardWork::kMulticast) == 0; ++i) {
    check_all_reduce(cluster, 100, 1, WireFormat::kNative);
    std::this_thread::sleep_for(1ms);
  }
  const uint64_t before = cluster.shard_work(ShardWork::kMulticast);
  ASSERT_GT(before, 0u) << "loopback carries multicast";
  std::vector<std::vector<float>> inputs;
  for (size_t i = 0; i < 3; ++i) inputs.push_back(sparse_floats(100'000, 0.05, i));
  for (const auto& got : sum_on_all(cluster, {inputs[0].size()}, inputs)) {
    ASSERT_TRUE(same_bits(got, canonical_sum(inputs)));
  }
  EXPECT_GT(cluster.shard_work(ShardWork::kMulticast), before);
  EXPECT_GT(cluster.shard_work(ShardWork::kCompact), 0u);
}

}  // namespace
}  // namespace sumcast::collective
