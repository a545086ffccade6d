// A12: groups that come and go, and small operations without end, leave nothing behind.
#include "acceptance/site.h"

namespace sumcast::acceptance {
namespace {

class Leak : public testing::TestWithParam<bool> {};

TEST_P(Leak, GroupsAndSmallOperationsLeaveNothingBehind) {
  const auto hosts = loopback_hosts(2);
  DaemonProcess daemon(hosts);
  Crew crew(hosts, 2);
  expect_all_ok(crew.join(GetParam() ? at_aggregator(daemon) : at_coordinator(hosts)));
  const int cycles = by_length(100, 1000);
  const std::string many = " count=" + std::to_string(cycles);
  const std::string small = "small count=" + std::to_string(by_length(3000, 1'000'000));
  // What is kept for reuse is there after the first round.
  expect_all_ok(crew.all("cycle first=0 count=50"));
  expect_all_ok(crew.all("small count=500"));
  const auto before = crew.all("facts");
  expect_all_ok(crew.all("cycle first=50" + many));
  expect_all_ok(crew.all(small));
  const auto after = crew.all("facts");
  for (size_t r = 0; r < crew.size(); ++r) {
    EXPECT_EQ(after[r]["descriptors"], before[r]["descriptors"]);
    EXPECT_EQ(after[r]["threads"], before[r]["threads"]);
    EXPECT_LE(after[r]["rss_kb"].get<int64_t>(), before[r]["rss_kb"].get<int64_t>() + 4096);
  }
}

INSTANTIATE_TEST_SUITE_P(Routes, Leak, testing::Values(false, true), route_name);

}  // namespace
}  // namespace sumcast::acceptance
