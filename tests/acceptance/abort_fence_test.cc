// A14: once a wait has returned with an error, the tensor is the caller's again, for ever.
#include <signal.h>

#include <thread>

#include "acceptance/site.h"

namespace sumcast::acceptance {
namespace {

class AbortFence : public testing::TestWithParam<bool> {
 protected:
  AbortFence() : hosts_(loopback_hosts(2)), daemon_(hosts_), crew_(hosts_, 2) {
    expect_all_ok(crew_.join(GetParam() ? at_aggregator(daemon_) : at_coordinator(hosts_)));
  }
  void expect_timeout_then_peace() {
    const json waited = crew_[0].ask("wait 10");
    EXPECT_EQ(waited.value("code", 0), static_cast<int>(ErrorCode::kTimeout)) << waited.dump();
    EXPECT_TRUE(crew_[0].ask("fill 0xC3").value("ok", false));
  }
  void expect_pattern_intact() {
    std::this_thread::sleep_for(by_length<Duration>(1s, 10s));
    const json checked = crew_[0].ask("check 0xC3");
    EXPECT_TRUE(checked.value("ok", false)) << checked.dump();
    // The group says that it is aborted; it does not hang and it does not sum.
    const json again = crew_[0].ask("all_reduce f32 sum 10 timeout=60000");
    EXPECT_FALSE(again.value("ok", true));
    EXPECT_TRUE(again.value("untouched", false));
    EXPECT_THAT(again.value("error", ""), testing::HasSubstr("rank 1"));
  }

  lab::Cluster hosts_;
  DaemonProcess daemon_;
  Crew crew_;
};

TEST_P(AbortFence, HoldsWhenThePeerCallsLater) {
  ASSERT_TRUE(crew_[0].ask("post f32 sum 1000000").value("ok", false));
  expect_timeout_then_peace();
  const json late = crew_[1].ask("all_reduce f32 sum 1000000 timeout=60000");
  EXPECT_FALSE(late.value("ok", true));
  EXPECT_TRUE(late.value("untouched", false));
  expect_pattern_intact();
}

TEST_P(AbortFence, HoldsWhenThePeerStallsInTheMiddle) {
  // Large enough that it is still under way when the peer is stopped, and then the wait ends.
  const std::string post = "post f32 sum " + std::to_string(16 << 20);
  crew_.tell_all(post);
  ASSERT_TRUE(crew_[0].hear().value("ok", false));
  ASSERT_TRUE(crew_[1].hear().value("ok", false));
  crew_[1].process().send_signal(SIGSTOP);
  const json waited = crew_[0].ask("wait 10");
  crew_[1].process().send_signal(SIGCONT);
  if (waited.value("ok", false)) GTEST_SKIP() << "all 64 MiB were summed before the peer stopped";
  EXPECT_TRUE(crew_[0].ask("fill 0xC3").value("ok", false));
  const json other = crew_[1].ask("wait 60000");
  EXPECT_FALSE(other.value("ok", true)) << other.dump();
  expect_pattern_intact();
}

INSTANTIATE_TEST_SUITE_P(Routes, AbortFence, testing::Values(false, true), route_name);

}  // namespace
}  // namespace sumcast::acceptance
