// A10: a path that silently swallows large packets, as one does where ICMP is dropped.
//
// A port of the bridge is given a smaller MTU than the hosts believe in. A veth port drops what is
// larger, on its way in and out, and tells nobody.
#include "acceptance/site.h"
#include "acceptance/tensor.h"

namespace sumcast::acceptance {
namespace {

using lab::Node;
using testing::HasSubstr;

class PathMtu : public NamespaceTest {
 protected:
  static lab::Cluster hosts_with_mtu(int mtu) {
    lab::ClusterOptions options;
    options.workers = 3;
    options.mtu = mtu;
    return namespace_hosts(options);
  }
  static void narrow(const lab::Cluster& hosts, int worker, int mtu) {
    ip(hosts, Node::aggregator(),
       "link set " + lab::port_name(Node::of_worker(worker)) + " mtu " + std::to_string(mtu));
  }
};

/// IPv4, UDP, our header and tag; and the 4 bytes that a port grants beyond its MTU for a VLAN tag.
constexpr int kHeaders = 28 + 32 + 16, kVlan = 4;

TEST_F(PathMtu, OfOneWorkerClampsEverybodysDatagrams) {
  const auto hosts = hosts_with_mtu(1500);
  narrow(hosts, 1, 1280);
  for (const bool with_daemon : {false, true}) {
    DaemonProcess daemon(hosts);
    Crew crew(hosts, 3);
    const auto joined = crew.join(with_daemon ? at_aggregator(daemon) : at_coordinator(hosts));
    expect_all_ok(joined);
    for (const json& answer : joined) {
      EXPECT_GE(answer.value("payload_bytes", 0), 1000) << answer.dump();
      EXPECT_LE(answer.value("payload_bytes", 0), 1280 + kVlan - kHeaders) << answer.dump();
    }
    const std::string expected = sha256(
        all_reduce_reference(ElementType::kF32, Values::kAny, Reduction::kSum, 3, 3, 200'000));
    expect_all_sha(crew.all("all_reduce f32 sum 200000 seed=3"), expected);
  }
}

TEST_F(PathMtu, OfOneHostWithJumboFramesDoesNotHarmTheOthers) {
  const auto hosts = hosts_with_mtu(1500);
  ip(hosts, Node::of_worker(0), "link set link0 mtu 9000");
  narrow(hosts, 0, 9000);
  for (const bool with_daemon : {false, true}) {
    DaemonProcess daemon(hosts);
    Crew crew(hosts, 3);
    const auto joined =
        crew.join("mtu=9000 " + (with_daemon ? at_aggregator(daemon) : at_coordinator(hosts)));
    expect_all_ok(joined);
    for (const json& answer : joined) {
      EXPECT_EQ(answer.value("payload_bytes", 0), 1500 - kHeaders) << answer.dump();
    }
    const std::string expected = sha256(
        all_reduce_reference(ElementType::kF32, Values::kAny, Reduction::kSum, 3, 3, 200'000));
    expect_all_sha(crew.all("all_reduce f32 sum 200000 seed=3"), expected);
  }
}

TEST_F(PathMtu, BelowTheLeastDatagramIsRefusedNamingTheMtu) {
  const auto hosts = hosts_with_mtu(1500);
  narrow(hosts, 1, 560);
  DaemonProcess daemon(hosts);
  Crew crew(hosts, 3);
  const auto joined = crew.join(at_aggregator(daemon) + "join_timeout=20000");
  EXPECT_EQ(joined[1].value("code", 0), static_cast<int>(ErrorCode::kUnavailable))
      << joined[1].dump();
  EXPECT_THAT(joined[1].value("error", ""), HasSubstr("MTU"));
  EXPECT_LT(joined[1].value("ms", 0), 15'000);
  for (const json& answer : joined) EXPECT_FALSE(answer.value("ok", true)) << answer.dump();
}

}  // namespace
}  // namespace sumcast::acceptance
