// A1: a killed rank is named to all survivors within seconds, and the daemon serves the next job.
#include <signal.h>

#include <thread>

#include "acceptance/site.h"

namespace sumcast::acceptance {
namespace {

using testing::HasSubstr;

/// The promise is two seconds; a busy machine gets more, far below the timeout of an operation.
constexpr Duration kPatience = 20s;

class Death : public testing::TestWithParam<bool> {};

TEST_P(Death, OfARankEndsTheLoopsOfAllOthersAndNamesIt) {
  const auto hosts = loopback_hosts(4);
  DaemonProcess daemon(hosts);
  Crew crew(hosts, 4);
  expect_all_ok(crew.join(GetParam() ? at_aggregator(daemon) : at_coordinator(hosts)));
  const std::string count = std::to_string(by_length(1, 16) << 20);
  crew.tell_all("loop f32 sum " + count + " timeout=120000");
  std::this_thread::sleep_for(400ms);
  crew[2].process().send_signal(SIGKILL);
  std::vector<json> answers;
  for (const size_t r : {0, 1, 3}) answers.push_back(crew[r].hear(kPatience));
  EXPECT_THAT(expect_one_error(answers, ErrorCode::kAborted), HasSubstr("rank 2"));
  for (const size_t r : {0, 1, 3}) EXPECT_TRUE(crew[r].ask("leave").value("ok", false));

  EXPECT_TRUE(daemon.is_running());
  Crew next(hosts, 4);
  expect_all_ok(next.join(GetParam() ? at_aggregator(daemon) : at_coordinator(hosts)));
  expect_all_ok(next.all("all_reduce f32 sum 100000"));
}

TEST_P(Death, BeforeAGroupsFirstOperationIsNoticedToo) {
  const auto hosts = loopback_hosts(3);
  DaemonProcess daemon(hosts);
  Crew crew(hosts, 3);
  expect_all_ok(crew.join(GetParam() ? at_aggregator(daemon) : at_coordinator(hosts)));
  expect_all_ok(crew.all("group sub 2,1,0"));
  crew[2].process().send_signal(SIGKILL);
  for (const size_t r : {0, 1}) crew[r].tell("all_reduce f32 sum 1000 group=sub timeout=120000");
  const std::vector<json> answers = {crew[0].hear(kPatience), crew[1].hear(kPatience)};
  EXPECT_THAT(expect_one_error(answers, ErrorCode::kAborted), HasSubstr("rank 2"));
}

/// A host that vanishes closes nothing: only the missing heartbeats tell.
TEST_P(Death, WithoutAClosedConnectionIsNoticedByHeartbeats) {
  const auto hosts = loopback_hosts(3);
  DaemonProcess daemon(hosts);
  Crew crew(hosts, 3);
  expect_all_ok(crew.join(GetParam() ? at_aggregator(daemon) : at_coordinator(hosts)));
  crew[2].process().send_signal(SIGSTOP);
  for (const size_t r : {0, 1}) crew[r].tell("all_reduce f32 sum 1000 timeout=120000");
  const std::vector<json> answers = {crew[0].hear(kPatience), crew[1].hear(kPatience)};
  EXPECT_THAT(expect_one_error(answers, ErrorCode::kAborted), HasSubstr("rank 2"));
  for (const json& answer : answers) EXPECT_TRUE(answer.value("untouched", false));
  crew[2].process().send_signal(SIGCONT);
}

TEST_P(Death, OfTheDaemonEndsTheJob) {
  if (!GetParam()) GTEST_SKIP() << "there is no daemon";
  const auto hosts = loopback_hosts(2);
  DaemonProcess daemon(hosts);
  Crew crew(hosts, 2);
  expect_all_ok(crew.join(at_aggregator(daemon)));
  crew.tell_all("loop f32 sum 100000 timeout=120000");
  std::this_thread::sleep_for(200ms);
  daemon.process().send_signal(SIGKILL);
  for (const size_t r : {0, 1}) {
    const json answer = crew[r].hear(kPatience);
    EXPECT_EQ(answer.value("code", 0), static_cast<int>(ErrorCode::kAborted)) << answer.dump();
    EXPECT_THAT(answer.value("error", ""), HasSubstr(daemon.address()));
  }
}

INSTANTIATE_TEST_SUITE_P(Routes, Death, testing::Values(false, true), route_name);

}  // namespace
}  // namespace sumcast::acceptance
