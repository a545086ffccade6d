// P19: results to all at once, for those who hear them.
#include "collective/multicast.h"

#include <gtest/gtest.h>

#include "collective/test_cluster.h"

namespace sumcast::collective {
namespace {

/// Operations until results go to all at once, of every shard; so many are far more than it takes.
void warm_up(Cluster& cluster) {
  const auto is_warm = [&] {
    if (cluster.host) return cluster.shard_work(ShardWork::kMulticast) > 0;
    return std::ranges::all_of(cluster.engines, [](auto& engine) {
      return engine->shard_counters()[ShardWork::kMulticast] > 0;
    });
  };
  for (int i = 0; i < 400 && !is_warm(); ++i) {
    check_all_reduce(cluster, 100, 1, WireFormat::kNative);
    std::this_thread::sleep_for(1ms);
  }
}

/// Three listeners at least.
void expect_results_once(Cluster& cluster) {
  const uint64_t results = cluster.shard_work(ShardWork::kResults);
  const uint64_t packets = cluster.shard_work(ShardWork::kPacketsSent);
  const uint64_t repairs = cluster.shard_work(ShardWork::kRepairs);
  check_all_reduce(cluster, 200000, 3, WireFormat::kNative);
  const uint64_t more = cluster.shard_work(ShardWork::kResults) - results;
  const uint64_t again = cluster.shard_work(ShardWork::kRepairs) - repairs;
  EXPECT_GT(more, 1500u);
  EXPECT_LT(cluster.shard_work(ShardWork::kPacketsSent) - packets, 2 * more + again)
      << "three times, if each got its own";
}

TEST(Multicast, GroupsAreOfTheSiteAndDifferByJob) {
  const net::Endpoint group = multicast_group(Incarnation(0x12345678), 4711);
  EXPECT_EQ(group.text(), "239.255.68.76:4711");
  EXPECT_FALSE(group == multicast_group(Incarnation(0x12345679), 4711));
  control::JobPlan plan;
  plan.incarnation = Incarnation(0x12345678);
  EXPECT_FALSE(direct_multicast_group(plan));
  plan.members.resize(2);
  plan.members[0].shard = "10.0.0.1:4711";
  EXPECT_EQ(direct_multicast_group(plan), group);
}

TEST(Multicast, ResultsGoOnceToAllWhoListen) {
  for (const bool secure : {true, false}) {
    Cluster cluster(3, {.secure = secure, .aggregator = true});
    warm_up(cluster);
    ASSERT_GT(cluster.shard_work(ShardWork::kMulticast), 0u) << "loopback carries multicast";
    expect_results_once(cluster);
  }
}

/// Each member's shard speaks to all others at once; they are one audience at one socket.
TEST(Multicast, EmbeddedShardsSendResultsOnceToo) {
  std::string reason;
  const auto hosts = net::NamespacePair::open(reason);
  for (const bool secure : {true, false}) {
    for (const net::NamespacePair* where :
         {static_cast<net::NamespacePair*>(nullptr), hosts.get()}) {
      Cluster cluster(4, {.secure = secure, .hosts = where});
      warm_up(cluster);
      for (auto& engine : cluster.engines) {
        ASSERT_GT(engine->shard_counters()[ShardWork::kMulticast], 0u) << "so does a pair of veth";
      }
      expect_results_once(cluster);
    }
  }
  if (hosts == nullptr) GTEST_SKIP() << "only on loopback: " << reason;
}

TEST(Multicast, WhoDoesNotListenGetsItsOwn) {
  for (const bool aggregator : {true, false}) {
    Cluster cluster(4, {.aggregator = aggregator, .listeners = 3});
    for (int i = 0; i < 400 && cluster.shard_work(ShardWork::kMulticast) == 0; ++i) {
      check_all_reduce(cluster, 100, 1, WireFormat::kNative);
      std::this_thread::sleep_for(1ms);
    }
    EXPECT_GT(cluster.shard_work(ShardWork::kMulticast), 0u);
    check_all_reduce(cluster, 100000, 2, WireFormat::kNative);
  }
}

TEST(Multicast, OneListenerAloneIsAnsweredAlone) {
  Cluster cluster(3, {.aggregator = true, .listeners = 1});
  warm_up(cluster);
  EXPECT_EQ(cluster.shard_work(ShardWork::kMulticast), 0u);
}

TEST(Multicast, QuietMembersAreAnsweredAlone) {
  Cluster cluster(3, {.aggregator = true});
  warm_up(cluster);
  const uint64_t before = cluster.shard_work(ShardWork::kMulticast);
  const std::vector<float> ones(50000, 1.0f);
  std::vector<std::vector<float>> outputs(3, std::vector<float>(ones.size(), 5.0f));
  cluster.on_all([&](size_t i) {
    wire::OperationDescriptor d;
    d.kind = wire::OperationKind::kReduce;
    d.root = 1;
    d.count = ones.size();
    auto op =
        cluster.engines[i]->submit(GroupId(0), cluster.route(), d, ones.data(), outputs[i].data());
    ASSERT_TRUE(op.has_value());
    ASSERT_TRUE(cluster.engines[i]->wait(**op, runtime::monotonic_now() + 5s));
    EXPECT_FALSE((*op)->error.has_value());
  });
  EXPECT_EQ(outputs[1], std::vector<float>(ones.size(), 3.0f));
  EXPECT_EQ(outputs[0], std::vector<float>(ones.size(), 5.0f));
  // Only the rendezvous, which has no lanes for anybody, may have gone to all.
  EXPECT_LE(cluster.shard_work(ShardWork::kMulticast) - before, 1u);
}

TEST(Multicast, IsExactUnderLossDuplicationAndReordering) {
  net::FaultPlan faults;
  faults.loss = faults.duplicate = faults.reorder = 0.03;
  for (const bool aggregator : {true, false}) {
    Cluster cluster(3, {.aggregator = aggregator, .faults = faults});
    warm_up(cluster);
    EXPECT_GT(cluster.shard_work(ShardWork::kMulticast), 0u);
    check_all_reduce(cluster, 200000, 3, WireFormat::kNative);
    EXPECT_EQ(cluster.shard_work(ShardWork::kUntuned), 0u) << "a little loss is no deafness";
  }
}

/// The daemon's host gets a switch between its own interface and the cable.
class MulticastThroughSwitch : public testing::Test {
 protected:
  void SetUp() override {
    std::string reason;
    hosts_ = net::NamespacePair::open(reason);
    if (hosts_ == nullptr) GTEST_SKIP() << reason;
    if (!hosts_->in_a(
            "ip link add switch type bridge && ip link set va master switch && "
            "ip link add own type veth peer name port && ip link set port master switch && "
            "ip addr del 10.77.0.1/24 dev va && ip addr add 10.77.0.1/24 dev own && "
            "ip link set own up && ip link set port up && ip link set switch up")) {
      GTEST_SKIP() << "needs the kernel's bridge";
    }
  }
  /// @param flood  "on" or "off".
  bool let_multicasts_pass(const char* flood) const {
    return hosts_->in_a(std::string("bridge link set dev va mcast_flood ") + flood);
  }

  std::unique_ptr<net::NamespacePair> hosts_;
};

/// A switch that forgets who listens: the group's datagrams end, all others go on.
TEST_F(MulticastThroughSwitch, WhoHearsNoMoreGetsItsOwn) {
  Cluster cluster(3, {.aggregator = true, .hosts = hosts_.get()});
  warm_up(cluster);
  ASSERT_GT(cluster.shard_work(ShardWork::kMulticast), 0u);
  ASSERT_TRUE(let_multicasts_pass("off"));
  check_all_reduce(cluster, 100000, 2, WireFormat::kNative);
  // The last of them is no audience any more, and so need not say that it hears nothing.
  EXPECT_GE(cluster.shard_work(ShardWork::kUntuned), 2u);
  const uint64_t multicast = cluster.shard_work(ShardWork::kMulticast);
  // Each result that did not come would be repaired, more than a thousand in every attempt; workers
  // that were slow to run ask for some as well, but not each time.
  uint64_t fewest = UINT64_MAX;
  for (int attempt = 0; attempt < 20 && fewest >= 100; ++attempt) {
    const uint64_t repairs = cluster.shard_work(ShardWork::kRepairs);
    check_all_reduce(cluster, 100000, 2, WireFormat::kNative);
    fewest = std::min(fewest, cluster.shard_work(ShardWork::kRepairs) - repairs);
  }
  EXPECT_LT(fewest, 100u);
  EXPECT_EQ(cluster.shard_work(ShardWork::kMulticast), multicast);
}

/// A switch that limits the rate of multicasts: some are always heard, too many are not.
TEST_F(MulticastThroughSwitch, WhoHearsTooLittleGetsItsOwn) {
  Cluster cluster(3, {.aggregator = true, .hosts = hosts_.get()});
  warm_up(cluster);
  ASSERT_GT(cluster.shard_work(ShardWork::kMulticast), 0u);
  std::atomic<bool> stop{false};
  std::thread limits([&] {
    while (!stop) {
      for (const char* flood : {"off", "on"}) {
        EXPECT_TRUE(let_multicasts_pass(flood));
        std::this_thread::sleep_for(10ms);
      }
    }
  });
  for (int i = 0; i < 60 && cluster.shard_work(ShardWork::kUntuned) < 2; ++i) {
    check_all_reduce(cluster, 100000, 1, WireFormat::kNative);
  }
  stop = true;
  limits.join();
  EXPECT_GE(cluster.shard_work(ShardWork::kUntuned), 2u);
}

}  // namespace
}  // namespace sumcast::collective
