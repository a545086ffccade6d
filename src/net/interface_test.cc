#include "net/interface.h"

#include <gtest/gtest.h>

#include "net/namespace_pair.h"

namespace sumcast::net {
namespace {

TEST(IfnameSelector, FollowsTheGrammarOfNccl) {
  const struct {
    const char* text;
    const char* name;
    bool matches;
  } kTable[] = {
      {"", "eth0", true},
      {"", "lo", true},
      {"eth", "eth0", true},
      {"eth", "eth", true},
      {"eth", "neth0", false},
      {"eth0", "eth01", true},
      {"eth,ib", "ib3", true},
      {"eth,ib", "lo", false},
      {"=eth0", "eth0", true},
      {"=eth0", "eth01", false},
      {"=eth0,ib1", "ib1", true},
      {"=eth0,ib1", "ib10", false},
      {"^docker", "docker0", false},
      {"^docker", "eth0", true},
      {"^docker,lo", "lo", false},
      {"^docker,lo", "lo2", false},
      {"^docker,lo", "eth0", true},
      {"^=lo", "lo", false},
      {"^=lo", "lo2", true},
      {"^=lo,eth0", "eth0", false},
      {"^=lo,eth0", "eth01", true},
      {" eth , ib ", "ib0", true},
      {"eth0,", "eth0", true},
      {"eth0,", "ib0", false},
  };
  for (const auto& row : kTable) {
    const auto selector = IfnameSelector::parse(row.text);
    ASSERT_TRUE(selector) << row.text;
    EXPECT_EQ(selector->matches(row.name), row.matches) << row.text << " on " << row.name;
  }
}

TEST(IfnameSelector, KnowsNamingFromExcluding) {
  EXPECT_TRUE(IfnameSelector::parse("lo")->names_interfaces());
  EXPECT_TRUE(IfnameSelector::parse("=lo")->names_interfaces());
  EXPECT_FALSE(IfnameSelector::parse("^lo")->names_interfaces());
  EXPECT_FALSE(IfnameSelector::parse("")->names_interfaces());
  EXPECT_TRUE(IfnameSelector::parse("  ")->is_default());
}

TEST(IfnameSelector, RefusesMarksWithoutOrInsideNames) {
  for (const char* bad : {"^", "=", "^=", ",", "^,", "eth0,^docker", "eth0,=eth1", "=^eth0"}) {
    EXPECT_FALSE(IfnameSelector::parse(bad)) << bad;
  }
}

Interface interface_at(const char* name, const char* address, bool up = true) {
  Interface interface;
  interface.name = name;
  interface.address = *parse_endpoint(address);
  interface.up = up;
  interface.loopback = interface.address.is_loopback();
  interface.mtu = 1500;
  return interface;
}

std::string names(const std::vector<Interface>& interfaces) {
  std::string text;
  for (const Interface& i : interfaces) text += i.name + " ";
  return text;
}

std::vector<Interface> typical_host() {
  return {interface_at("lo", "127.0.0.1:0"),       interface_at("docker0", "172.17.0.1:0"),
          interface_at("eth2", "169.254.7.7:0"),   interface_at("eth0", "[2001:db8::1]:0"),
          interface_at("eth0", "10.0.0.1:0"),      interface_at("eth1", "10.1.0.1:0", false),
          interface_at("virbr0", "192.168.1.1:0"), interface_at("lo", "[::1]:0")};
}

TEST(Candidates, PutPlausibleInterfacesFirst) {
  const auto select = [](const char* text, Family family) {
    return names(candidates(typical_host(), *IfnameSelector::parse(text), family));
  };
  EXPECT_EQ(select("", Family::kIpv4), "eth0 eth2 docker0 virbr0 lo ");
  EXPECT_EQ(select("", Family::kIpv6), "eth0 lo ");
  EXPECT_EQ(select("^eth", Family::kIpv4), "docker0 virbr0 lo ") << "what is left is used";
  EXPECT_EQ(select("lo,docker", Family::kIpv4), "lo docker0 ") << "named ones are ordinary";
  EXPECT_EQ(select("eth1", Family::kIpv4), "") << "what is down cannot be used";
  EXPECT_EQ(select("ib", Family::kIpv4), "");
  const auto any = candidates(typical_host(), {}, Family::kAny);
  ASSERT_GE(any.size(), 2u);
  EXPECT_EQ(any[0].address.text(), "10.0.0.1:0") << "IPv4 before IPv6 among equals";
}

TEST(Interfaces, IncludeLoopbackWithItsMtu) {
  const auto interfaces = list_interfaces();
  ASSERT_TRUE(interfaces) << interfaces.error().what;
  bool found = false;
  for (const Interface& i : *interfaces) {
    if (i.address != Endpoint::loopback(Family::kIpv4, 0)) continue;
    found = true;
    EXPECT_TRUE(i.loopback);
    EXPECT_TRUE(i.up);
    EXPECT_GT(i.mtu, 1500u);
    EXPECT_EQ(interface_mtu(i.address.with_port(5)), i.mtu);
    EXPECT_EQ(interface_mtu(*parse_endpoint("127.0.0.9:0")), i.mtu);
  }
  EXPECT_TRUE(found);
  EXPECT_FALSE(interface_mtu(Endpoint::any(Family::kIpv4, 1)));
  EXPECT_FALSE(interface_mtu(*parse_endpoint("203.0.113.9:1")));
  EXPECT_FALSE(interface_mtu(Endpoint()));
}

TEST(ChooseLocal, TakesLoopbackTowardsLoopback) {
  for (const Family family : {Family::kIpv4, Family::kIpv6}) {
    const auto local = choose_local(Endpoint::loopback(family, 4711));
    ASSERT_TRUE(local) << local.error().what;
    EXPECT_EQ(*local, Endpoint::loopback(family, 0));
  }
  const auto wrong = choose_local(Endpoint::loopback(Family::kIpv4, 1), {}, Family::kIpv6);
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().code, ErrorCode::kInvalidArgument);
}

class ChooseLocalOnACable : public testing::Test {
 protected:
  void SetUp() override {
    std::string reason;
    pair_ = NamespacePair::open(reason);
    if (pair_ == nullptr) GTEST_SKIP() << reason;
    // A second address in another network, as docker's bridge would have.
    ASSERT_TRUE(
        pair_->in_a("ip link add docker0 type veth peer name container && "
                    "ip addr add 172.17.0.1/16 dev docker0 && "
                    "ip link set docker0 up && ip link set container up"));
  }

  std::string chosen(const char* remote, const char* selector, Family family = Family::kAny) {
    const auto inside = pair_->inside_a();
    const Endpoint to = remote[0] == 0 ? Endpoint() : *parse_endpoint(remote);
    const auto local = choose_local(to, *IfnameSelector::parse(selector), family);
    return local ? local->text() : local.error().what;
  }

  std::unique_ptr<NamespacePair> pair_;
};

TEST_F(ChooseLocalOnACable, GoesByRoute) {
  EXPECT_EQ(chosen("10.77.0.2:4711", ""), "10.77.0.1:0");
  EXPECT_EQ(chosen("[fd77::2]:4711", ""), "[fd77::1]:0");
  EXPECT_EQ(chosen("172.17.3.3:4711", ""), "172.17.0.1:0") << "the route knows better than we do";
  EXPECT_EQ(chosen("10.77.0.2:0", ""), "10.77.0.1:0");
  EXPECT_EQ(chosen("10.77.0.1:9", ""), "10.77.0.1:0") << "to oneself";
}

TEST_F(ChooseLocalOnACable, WithoutAPeerSkipsBridgesAndLoopback) {
  EXPECT_EQ(chosen("", ""), "10.77.0.1:0");
  EXPECT_EQ(chosen("", "", Family::kIpv6), "[fd77::1]:0");
  EXPECT_EQ(chosen("", "^va", Family::kIpv4), "172.17.0.1:0");
  EXPECT_EQ(chosen("", "lo", Family::kIpv4), "127.0.0.1:0");
}

TEST_F(ChooseLocalOnACable, ObeysTheSelectorOrSaysWhatItTried) {
  EXPECT_EQ(chosen("10.77.0.2:1", "=va"), "10.77.0.1:0");
  EXPECT_EQ(chosen("10.77.0.2:1", "docker"), "172.17.0.1:0") << "against the route, on request";
  const std::string missing = chosen("10.77.0.2:1", "ib");
  EXPECT_NE(missing.find("no local IPv4 address leads to 10.77.0.2:1; tried "), std::string::npos)
      << missing;
  EXPECT_NE(missing.find("va 10.77.0.1 (not selected)"), std::string::npos) << missing;
  EXPECT_NE(missing.find("SUMCAST_SOCKET_IFNAME (now 'ib')"), std::string::npos) << missing;
  const std::string loopback = chosen("10.77.0.2:1", "lo");
  EXPECT_NE(loopback.find("lo 127.0.0.1 (no route)"), std::string::npos) << loopback;
  const std::string loopback6 = chosen("[fd77::2]:1", "lo");
  EXPECT_NE(loopback6.find("lo ::1 (no route)"), std::string::npos) << loopback6;
  EXPECT_EQ(chosen("10.77.0.1:1", "lo"), "127.0.0.1:0") << "to oneself it does lead";
  const std::string nowhere = chosen("192.0.2.1:1", "");
  EXPECT_NE(nowhere.find("va 10.77.0.1 (no route)"), std::string::npos) << nowhere;
}

TEST_F(ChooseLocalOnACable, KnowsTheMtu) {
  ASSERT_TRUE(pair_->in_a("ip link set va mtu 1400"));
  const auto inside = pair_->inside_a();
  EXPECT_EQ(interface_mtu(*parse_endpoint("10.77.0.1:1")), 1400u);
}

}  // namespace
}  // namespace sumcast::net
