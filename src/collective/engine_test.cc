// Sums of groups of engines over a daemon's shard and over embedded ones, on loopback.
#include <gtest/gtest.h>

#include "collective/test_cluster.h"

namespace sumcast::collective {
namespace {

TEST(Engine, SumsThroughADaemonsShard) {
  Cluster cluster(3, {.aggregator = true});
  for (const size_t count : {size_t{0}, size_t{1}, size_t{352}, size_t{353}, size_t{100000}}) {
    check_all_reduce(cluster, count, 2, WireFormat::kNative);
  }
}

TEST(Engine, SumsDirectlyBetweenEmbeddedShards) {
  for (const size_t world : {1u, 2u, 4u}) {
    Cluster cluster(world, {});
    for (const size_t count : {size_t{0}, size_t{1}, size_t{1000}, size_t{200000}}) {
      check_all_reduce(cluster, count, 2, WireFormat::kNative);
    }
  }
}

TEST(Engine, SumsWithoutTags) {
  Cluster cluster(2, {.secure = false, .aggregator = true, .flows = 3});
  check_all_reduce(cluster, 300000, 1, WireFormat::kNative);
}

TEST(Engine, GivesTheSameBitsUnderLossDuplicationAndReordering) {
  net::FaultPlan faults;
  faults.loss = 0.03;
  faults.duplicate = 0.02;
  faults.reorder = 0.02;
  for (const bool aggregator : {true, false}) {
    Cluster cluster(3, {.aggregator = aggregator, .faults = faults});
    check_all_reduce(cluster, 150000, 2, WireFormat::kNative);
    check_all_reduce(cluster, 10, 20, WireFormat::kNative);
  }
}

TEST(Engine, CarriesEveryWireFormat) {
  Cluster cluster(3, {});
  for (const WireFormat format :
       {WireFormat::kBF16, WireFormat::kFP16, WireFormat::kInt8, WireFormat::kFixed}) {
    check_all_reduce(cluster, 10000, 1, format);
  }
}

TEST(Engine, AbortEndsWhatIsUnderWayAndFencesTheTensor) {
  Cluster cluster(2, {.aggregator = true});
  std::vector<float> tensor(50000, 1.0f);
  wire::OperationDescriptor d;
  d.count = tensor.size();
  auto op =
      cluster.engines[0]->submit(GroupId(0), cluster.route(), d, tensor.data(), tensor.data());
  ASSERT_TRUE(op.has_value());
  EXPECT_FALSE(cluster.engines[0]->wait(**op, runtime::monotonic_now() + 20ms));
  cluster.engines[0]->abort(GroupId(0), Error{ErrorCode::kAborted, "rank 1 died"});
  EXPECT_TRUE((*op)->done.load());
  EXPECT_EQ((*op)->error->what, "rank 1 died");
  std::ranges::fill(tensor, 7.0f);
  std::vector<float> other(50000, 2.0f);
  auto late =
      cluster.engines[1]->submit(GroupId(0), cluster.route(), d, other.data(), other.data());
  ASSERT_TRUE(late.has_value());
  (void)cluster.engines[1]->wait(**late, runtime::monotonic_now() + 200ms);
  for (const float v : tensor) ASSERT_EQ(v, 7.0f);
  EXPECT_FALSE(
      cluster.engines[0]->submit(GroupId(0), cluster.route(), d, tensor.data(), tensor.data()));
}

TEST(Engine, ShortOperationsAreUnderWaySideBySide) {
  Cluster cluster(2, {.aggregator = true, .slots = 64});
  Engine& engine = *cluster.engines[0];
  const uint64_t before = engine.counters().contributions;
  std::vector<float> tensor(352 * 20, 1.0f);
  wire::OperationDescriptor d;
  d.count = tensor.size();
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(engine.submit(GroupId(0), cluster.route(), d, tensor.data(), tensor.data()));
  }
  // Nothing has come back: rank 1 has not called.
  EXPECT_EQ(engine.counters().contributions - before, 2 * 20u);
  engine.abort(GroupId(0), Error{ErrorCode::kAborted, "seen enough"});
}

TEST(Engine, ManyAsynchronousOperationsOfTwoGroupsAtOnce) {
  Cluster cluster(2, {.slots = 4});
  cluster.open_group(GroupId(1));
  constexpr int kOperations = 600;  // More than a window takes at once.
  std::vector<std::vector<int32_t>> tensors[2];
  for (auto& of_rank : tensors) {
    for (int n = 0; n < kOperations; ++n) of_rank.emplace_back(1 + n % 900, n);
  }
  cluster.on_all([&](size_t i) {
    std::vector<OperationPtr> operations;
    for (int n = 0; n < kOperations; ++n) {
      wire::OperationDescriptor d;
      d.type = ElementType::kI32;
      d.count = tensors[i][n].size();
      auto op = cluster.engines[i]->submit(GroupId(static_cast<uint16_t>(n % 2)), cluster.route(),
                                           d, tensors[i][n].data(), tensors[i][n].data());
      ASSERT_TRUE(op.has_value());
      operations.push_back(*op);
    }
    for (auto& op : operations) {
      ASSERT_TRUE(cluster.engines[i]->wait(*op, runtime::monotonic_now() + 5s));
    }
  });
  for (const auto& of_rank : tensors) {
    for (int n = 0; n < kOperations; ++n) {
      for (const int32_t v : of_rank[n]) ASSERT_EQ(v, 2 * n);
    }
  }
}

}  // namespace
}  // namespace sumcast::collective
