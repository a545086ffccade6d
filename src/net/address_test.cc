#include "net/address.h"

#include <gtest/gtest.h>

#include <unordered_set>

namespace sumcast::net {
namespace {

TEST(Endpoint, ReadsAndWritesBothFamilies) {
  const auto v4 = parse_endpoint("10.0.0.1:4711");
  ASSERT_TRUE(v4) << v4.error().what;
  EXPECT_EQ(v4->text(), "10.0.0.1:4711");
  EXPECT_EQ(v4->port(), 4711);
  EXPECT_EQ(v4->family(), Family::kIpv4);
  const auto v6 = parse_endpoint("[::1]:4711");
  ASSERT_TRUE(v6) << v6.error().what;
  EXPECT_EQ(v6->text(), "[::1]:4711");
  EXPECT_EQ(v6->address_text(), "::1");
  EXPECT_TRUE(v6->is_loopback());
  EXPECT_EQ(parse_endpoint("[fe80::1%lo]:7")->text(), "[fe80::1%lo]:7");
}

TEST(Endpoint, ComparesAddressAndPort) {
  const Endpoint a = *parse_endpoint("10.0.0.1:1");
  EXPECT_EQ(a, *parse_endpoint("10.0.0.1:1"));
  EXPECT_NE(a, a.with_port(2));
  EXPECT_TRUE(a.same_address(a.with_port(2)));
  EXPECT_NE(a, *parse_endpoint("10.0.0.2:1"));
  EXPECT_NE(a, *parse_endpoint("[::ffff:10.0.0.1]:1"));
  EXPECT_NE(a, Endpoint());
  EXPECT_EQ(Endpoint(), Endpoint());
  std::unordered_set<Endpoint> set = {a, a.with_port(2), *parse_endpoint("[::1]:1"),
                                      *parse_endpoint("[::2]:1"), a};
  EXPECT_EQ(set.size(), 4u);
}

TEST(Endpoint, MapsIpv4IntoIpv6AndBack) {
  const Endpoint v4 = *parse_endpoint("10.1.2.3:99");
  EXPECT_EQ(v4.mapped().text(), "[::ffff:10.1.2.3]:99");
  EXPECT_EQ(v4.mapped().unmapped(), v4);
  EXPECT_EQ(v4.unmapped(), v4);
  const Endpoint v6 = *parse_endpoint("[2001:db8::1]:99");
  EXPECT_EQ(v6.unmapped(), v6);
  EXPECT_EQ(v6.mapped(), v6);
}

TEST(Endpoint, KnowsKindsOfAddresses) {
  EXPECT_TRUE(Endpoint::any(Family::kIpv6, 1).is_wildcard());
  EXPECT_TRUE(Endpoint::any(Family::kIpv4, 1).is_wildcard());
  EXPECT_TRUE(parse_endpoint("127.9.9.9:1")->is_loopback());
  EXPECT_FALSE(parse_endpoint("128.0.0.1:1")->is_loopback());
  EXPECT_TRUE(parse_endpoint("169.254.3.4:1")->is_link_local());
  EXPECT_TRUE(parse_endpoint("[fe80::1%lo]:1")->is_link_local());
  EXPECT_FALSE(parse_endpoint("[2001:db8::1]:1")->is_link_local());
  EXPECT_EQ(Endpoint().text(), "unspecified");
}

TEST(ParseEndpoint, SaysWhatIsWrong) {
  const struct {
    const char* text;
    const char* says;
  } kCases[] = {
      {"10.0.0.1", "lacks a port"},
      {"10.0.0.1:", "is not a number"},
      {"10.0.0.1:65536", "is not a number"},
      {"10.0.0.1:-1", "is not a number"},
      {"10.0.0.1:80x", "is not a number"},
      {":80", "lacks a host"},
      {"[]:80", "lacks a host"},
      {"::1:80", "in brackets"},
      {"[::1:80", "is not [IPv6"},
      {"", "lacks a port"},
      {"no-such-host.invalid:80", "cannot resolve 'no-such-host.invalid'"},
  };
  for (const auto& c : kCases) {
    const auto parsed = parse_endpoint(c.text);
    ASSERT_FALSE(parsed) << c.text;
    EXPECT_NE(parsed.error().what.find(c.says), std::string::npos) << parsed.error().what;
  }
}

TEST(ParseEndpoint, HoldsAnAddressToTheFamilyAskedFor) {
  EXPECT_TRUE(parse_endpoint("127.0.0.1:1", Family::kIpv4));
  const auto wrong = parse_endpoint("127.0.0.1:1", Family::kIpv6);
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().what, "'127.0.0.1:1' is an IPv4 address, but IPv6 is wanted");
  const auto named = parse_endpoint("localhost:5", Family::kIpv4);
  ASSERT_TRUE(named) << named.error().what;
  EXPECT_EQ(named->text(), "127.0.0.1:5");
}

TEST(ParseEndpoints, KeepsOrderAndRefusesEmptyElements) {
  const auto list = parse_endpoints("10.0.0.1:1, [::1]:2");
  ASSERT_TRUE(list) << list.error().what;
  ASSERT_EQ(list->size(), 2u);
  EXPECT_EQ((*list)[1].text(), "[::1]:2");
  for (const char* bad : {"", ",", "10.0.0.1:1,", "10.0.0.1:1,,10.0.0.2:1", "10.0.0.1"}) {
    EXPECT_FALSE(parse_endpoints(bad)) << bad;
  }
}

}  // namespace
}  // namespace sumcast::net
