// A13: many groups over overlapping ranks, from several threads, in an order of each rank's own,
// with fewer slots than all of them want. Nothing waits in a circle, and every sum is exact.
#include "acceptance/site.h"

namespace sumcast::acceptance {
namespace {

class Concurrency : public testing::TestWithParam<bool> {};

TEST_P(Concurrency, GroupsDoNotWaitForEachOther) {
  const auto hosts = loopback_hosts(4);
  // Each group would like some eighty slots, of these.
  DaemonProcess daemon(hosts, {"--slots", "64"});
  Crew crew(hosts, 4);
  expect_all_ok(crew.join(GetParam() ? at_aggregator(daemon) : at_coordinator(hosts)));
  const std::string rounds = std::to_string(by_length(15, 300));
  expect_all_ok(crew.all("swarm groups=8 threads=4 seed=%r rounds=" + rounds));
}

TEST_P(Concurrency, NorDoTheyInBadWeather) {
  const auto hosts = loopback_hosts(4);
  DaemonProcess daemon(hosts, {"--slots", "64", "--loss", "0.02", "--reorder", "0.02"});
  Crew crew(hosts, 4);
  const std::string where = GetParam() ? at_aggregator(daemon) : at_coordinator(hosts);
  expect_all_ok(crew.join(where + "loss=0.02 dup=0.01 reorder=0.02 seed=9"));
  const std::string rounds = std::to_string(by_length(8, 100));
  expect_all_ok(crew.all("swarm groups=8 threads=4 seed=%r rounds=" + rounds));
}

INSTANTIATE_TEST_SUITE_P(Routes, Concurrency, testing::Values(false, true), route_name);

}  // namespace
}  // namespace sumcast::acceptance
