#include "lab/topology.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace sumcast::lab {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(Topology, GivesEveryNodeAnAddressOfItsOwn) {
  std::set<std::string> v4 = {cluster_address(Node::aggregator()), cluster_address(Node::server())};
  std::set<std::string> v6 = {cluster_address6(Node::aggregator()),
                              cluster_address6(Node::server())};
  std::set<std::string> loopback = {loopback_address(Node::aggregator()),
                                    loopback_address(Node::server())};
  for (int worker = 0; worker < kWorkersMax; ++worker) {
    const Node node = Node::of_worker(worker);
    EXPECT_TRUE(v4.insert(cluster_address(node)).second) << worker;
    EXPECT_TRUE(v6.insert(cluster_address6(node)).second) << worker;
    EXPECT_TRUE(loopback.insert(loopback_address(node)).second) << worker;
  }
  EXPECT_EQ(cluster_address(Node::of_worker(0)), "10.77.1.1");
  EXPECT_EQ(cluster_address(Node::of_worker(255)), "10.77.2.6");
  EXPECT_EQ(loopback_address(Node::of_worker(0)), "127.0.1.1");
}

TEST(Topology, ShapesBothEndsOfALinkAndTheServersWithItsOwnRate) {
  ClusterOptions options;
  options.rate_bits_per_second = 300'000'000;
  options.with_server = true;
  options.server_rate_bits_per_second = 1'000'000'000;
  EXPECT_THAT(tc_script_of_bridge(options), HasSubstr("dev port1 root tbf rate 300000000bit"));
  EXPECT_THAT(tc_script_of_bridge(options), HasSubstr("dev portserver root tbf rate 1000000000b"));
  EXPECT_THAT(tc_script_of_bridge(options), Not(HasSubstr(kBridgeName)));
  EXPECT_THAT(tc_script_of_node(options, Node::of_worker(0)),
              HasSubstr("dev link0 root tbf rate 300000000bit burst 128kb limit 1mb"));
  options.server_rate_bits_per_second = 0;
  EXPECT_THAT(tc_script_of_node(options, Node::server()), HasSubstr("rate 300000000bit"));
}

TEST(Topology, CountsWithAPlainQueueWhenUnshaped) {
  const ClusterOptions options;
  EXPECT_THAT(tc_script_of_node(options, Node::of_worker(0)), HasSubstr("pfifo"));
  EXPECT_THAT(tc_script_of_bridge(options), HasSubstr("dev port1 root pfifo"));
}

TEST(Topology, LeavesOutIpv6WhereTheMtuIsTooSmallForIt) {
  ClusterOptions options;
  EXPECT_THAT(ip_script_of_node(options, Node::of_worker(0)), HasSubstr("fd77:5c::1:1/64"));
  options.mtu = 1000;
  EXPECT_THAT(ip_script_of_node(options, Node::of_worker(0)), Not(HasSubstr("fd77")));
}

/// The kernel's table of those that are looked up is one for all namespaces, and may be full.
TEST(Topology, NodesOfSmallClustersKnowEachOtherWithoutAsking) {
  ClusterOptions options;
  options.workers = 3;
  options.with_server = true;
  const std::string node = ip_script_of_node(options, Node::of_worker(1));
  const std::string bridge = ip_script_of_bridge(options, {"a", "b", "c", "d"});
  EXPECT_THAT(bridge, HasSubstr("peer name link0 address 02:77:00:01:00:00 mtu"));
  EXPECT_THAT(node, HasSubstr("neigh replace 10.77.1.1 lladdr 02:77:00:01:00:00 dev link0 nud"));
  EXPECT_THAT(node, HasSubstr("neigh replace 10.77.0.2 lladdr 02:77:00:00:00:02 dev link0 nud"));
  EXPECT_THAT(bridge, HasSubstr("link add sum0 address 02:77:00:00:00:01"));
  EXPECT_THAT(node, HasSubstr("neigh replace 10.77.0.1 lladdr 02:77:00:00:00:01 dev link0 nud"));
  EXPECT_THAT(node, Not(HasSubstr("neigh replace 10.77.1.2 ")));  // Itself.
  EXPECT_THAT(bridge, HasSubstr("neigh replace 10.77.1.3 lladdr 02:77:00:01:00:02 dev sum0 nud"));
  options.workers = 64;
  EXPECT_THAT(ip_script_of_node(options, Node::of_worker(1)), Not(HasSubstr("neigh")));
}

TEST(Topology, RefusesImpossibleClustersByName) {
  ClusterOptions options;
  options.workers = 257;
  const Result<void> crowded = validate(options);
  ASSERT_FALSE(crowded);
  EXPECT_THAT(crowded.error().what, HasSubstr("workers = 257"));
  options.workers = 0;
  EXPECT_FALSE(validate(options));
  options.workers = 256;
  EXPECT_TRUE(validate(options));
  options.mtu = 100;
  EXPECT_FALSE(validate(options));
}

}  // namespace
}  // namespace sumcast::lab
