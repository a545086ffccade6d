// A2: whoever is missing is named, all of them, to everybody who waits, at the deadline.
#include "acceptance/site.h"

namespace sumcast::acceptance {
namespace {

using testing::HasSubstr;
using testing::Not;

/// Deadlines are met late on a busy machine, never early: the upper bound is only there to tell a
/// deadline from a hang.
void expect_about(const json& answer, int64_t milliseconds) {
  const int64_t took = answer.value("ms", int64_t{-1});
  EXPECT_GE(took, milliseconds * 9 / 10) << answer.dump();
  EXPECT_LE(took, milliseconds * 11 / 10 + 15'000) << answer.dump();
}

TEST(NoShow, RanksThatNeverStartAreAllNamedToThoseWhoJoined) {
  const auto hosts = loopback_hosts(7);
  for (const bool with_daemon : {false, true}) {
    DaemonProcess daemon(hosts);
    Crew crew(hosts, 5);
    const std::string where = with_daemon ? at_aggregator(daemon) : at_coordinator(hosts);
    const auto answers =
        crew.all("join rank=%r world=7 key=" + key_file() + " join_timeout=2000 " + where);
    for (const json& answer : answers) {
      EXPECT_EQ(answer.value("code", 0), static_cast<int>(ErrorCode::kTimeout)) << answer.dump();
      EXPECT_THAT(answer.value("error", ""), HasSubstr("ranks 5 and 6")) << answer.dump();
      expect_about(answer, 2000);
    }
  }
}

class NoShowInAGroup : public testing::TestWithParam<bool> {};

TEST_P(NoShowInAGroup, ARankThatLivesButDoesNotCallIsNamedWithItsTag) {
  const auto hosts = loopback_hosts(4);
  DaemonProcess daemon(hosts);
  Crew crew(hosts, 4);
  expect_all_ok(crew.join(GetParam() ? at_aggregator(daemon) : at_coordinator(hosts)));
  expect_all_ok(crew.all("all_reduce f32 sum 100 seed=1"));
  EXPECT_TRUE(crew[3].ask("tag in the data loader").value("ok", false));
  crew[3].tell("sleep 4000");
  for (size_t r = 0; r < 3; ++r) crew[r].tell("all_reduce f32 sum 50000 seed=2 timeout=1500");
  std::vector<json> answers;
  for (size_t r = 0; r < 3; ++r) answers.push_back(crew[r].hear());
  const std::string text = expect_one_error(answers, ErrorCode::kTimeout);
  EXPECT_THAT(text, HasSubstr("waiting for 1 of 4 ranks: rank 3"));
  EXPECT_THAT(text, HasSubstr("in the data loader"));
  EXPECT_THAT(text, HasSubstr("last posted #1 all_reduce f32[100] sum, completed"));
  for (const json& answer : answers) expect_about(answer, 1500);
  // Who comes late is told the same, at once.
  crew[3].hear();
  const json late = crew[3].ask("all_reduce f32 sum 50000 seed=2 timeout=60000");
  EXPECT_EQ(late.value("error", ""), text);
  EXPECT_TRUE(late.value("untouched", false));
}

TEST_P(NoShowInAGroup, SeveralMissingRanksAreAllListed) {
  const auto hosts = loopback_hosts(6);
  DaemonProcess daemon(hosts);
  Crew crew(hosts, 6);
  expect_all_ok(crew.join(GetParam() ? at_aggregator(daemon) : at_coordinator(hosts)));
  for (const size_t r : {1, 3, 4}) crew[r].tell("sleep 2500");
  for (const size_t r : {0, 2, 5}) crew[r].tell("all_reduce i32 max 10 timeout=1000");
  std::vector<json> answers;
  for (const size_t r : {0, 2, 5}) answers.push_back(crew[r].hear());
  const std::string text = expect_one_error(answers, ErrorCode::kTimeout);
  EXPECT_THAT(text, HasSubstr("waiting for 3 of 6 ranks: rank 1 (no operation yet), rank 3 (no "
                              "operation yet), rank 4 (no operation yet)"));
  for (const json& answer : answers) expect_about(answer, 1000);
}

TEST_P(NoShowInAGroup, ARankThatDoesNotComeToAGroupIsNamed) {
  const auto hosts = loopback_hosts(3);
  DaemonProcess daemon(hosts);
  Crew crew(hosts, 3);
  expect_all_ok(
      crew.join((GetParam() ? at_aggregator(daemon) : at_coordinator(hosts)) + "timeout=1500"));
  crew[0].tell("group pair 0,2");
  const json answer = crew[0].hear();
  EXPECT_EQ(answer.value("code", 0), static_cast<int>(ErrorCode::kTimeout)) << answer.dump();
  EXPECT_THAT(answer.value("error", ""), HasSubstr("rank 2"));
  EXPECT_THAT(answer.value("error", ""), Not(HasSubstr("rank 1")));
  // The world is none the worse for it.
  expect_all_ok(crew.all("all_reduce f32 sum 1000 seed=1 timeout=60000"));
}

INSTANTIATE_TEST_SUITE_P(Routes, NoShowInAGroup, testing::Values(false, true), route_name);

}  // namespace
}  // namespace sumcast::acceptance
