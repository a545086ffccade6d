// Which ranks the coordinator lets share a host, and the fate of two groups that are one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "control/coordinator_world.h"

namespace sumcast::control {
namespace {

/// A job whose ranks join from the hosts named here.
void start_on(CoordinatorWorld& w, const std::vector<std::string>& hosts) {
  for (size_t r = 0; r < hosts.size(); ++r) {
    const int rank = static_cast<int>(r);
    w.connect(CoordinatorWorld::connection(rank), "10.0.0.1");
    Join join = CoordinatorWorld::join_message(rank, static_cast<uint32_t>(hosts.size()));
    join.host = hosts[r];
    w.say(rank, join);
    w.beating.insert(rank);
  }
}

void open_leaders(CoordinatorWorld& w, const std::vector<int>& leaders, GroupId of) {
  OpenGroup open = CoordinatorWorld::open_message(leaders, "hosts");
  open.leaders_of = of;
  for (const int r : leaders) w.say(r, open);
}

using ::testing::HasSubstr;
using Hosts = std::vector<uint32_t>;

TEST(CoordinatorHosts, RanksOfOneHostShareANumberInOrderOfTheFirst) {
  CoordinatorWorld w;
  start_on(w, {"b", "a", "b", "c", "a"});
  w.open({0, 1, 2, 3, 4});
  for (int r = 0; r < 5; ++r) {
    EXPECT_EQ(w.received<GroupOpened>(r).at(0).hosts, (Hosts{0, 1, 0, 2, 1}));
  }
  w.open({4, 2, 0}, "g");  // In the group's order, not the job's.
  EXPECT_EQ(w.received<GroupOpened>(4).at(1).hosts, (Hosts{0, 1, 1}));
}

TEST(CoordinatorHosts, OneRankThatCannotShareSplitsItsHostForAll) {
  CoordinatorWorld w;
  start_on(w, {"a", "a", "b", "b", "a"});
  for (const int r : {0, 1, 2, 3, 4}) {
    OpenGroup open = CoordinatorWorld::open_message({0, 1, 2, 3, 4});
    if (r == 1) open.alone = "memfd_create: Operation not permitted";
    w.say(r, open);
  }
  for (int r = 0; r < 5; ++r) {
    EXPECT_EQ(w.received<GroupOpened>(r).at(0).hosts, (Hosts{0, 1, 2, 2, 3}));
  }
  const auto status = w.coordinator.status(w.now);
  EXPECT_EQ(status.jobs.at(0).ranks.at(1).alone, "memfd_create: Operation not permitted");
  EXPECT_EQ(status.jobs.at(0).groups.at(0).hosts, (Hosts{0, 1, 2, 2, 3}));
}

TEST(CoordinatorHosts, OnlyGroupsThatSendDatagramsTakeSlots) {
  CoordinatorWorld w;
  start_on(w, {"a", "a", "b", "b"});
  w.open({0, 1, 2, 3});
  EXPECT_EQ(w.received<GroupOpened>(0).at(0).slot_count, 1u);
  open_leaders(w, {0, 2}, GroupId(0));
  EXPECT_GT(w.received<GroupOpened>(0).at(1).slot_count, 1u);
}

TEST(CoordinatorHosts, LeadersConnectAGroupThatIsOpenAndTheirs) {
  CoordinatorWorld w;
  start_on(w, {"a", "a", "b"});
  w.open({0, 2});
  open_leaders(w, {0, 2}, GroupId(7));
  EXPECT_EQ(w.received<Refused>(0).at(0).text,
            "group \"hosts\": the group that it connects the hosts of is not open");
  open_leaders(w, {1, 2}, GroupId(0));
  EXPECT_EQ(w.received<Refused>(1).at(0).text,
            "group \"hosts\": a rank is not in the group that it connects the hosts of");
}

TEST(CoordinatorHosts, LeadersThatWaitForOneAnotherHearOfTheirGroupsEnd) {
  CoordinatorWorld w;
  start_on(w, {"a", "a", "b", "b"});
  w.open({0, 1, 2, 3});
  OpenGroup open = CoordinatorWorld::open_message({0, 2}, "hosts");
  open.leaders_of = GroupId(0);
  w.say(0, open);
  w.hang_up(3);  // No leader, but rank 2 gives up now.
  EXPECT_EQ(w.received<Refused>(0).at(0).text, w.abort_text(0));
}

TEST(CoordinatorHosts, LeadersDoNotWaitForOneThatClosedTheGroupInstead) {
  CoordinatorWorld w;
  start_on(w, {"a", "a", "b", "b"});
  w.open({0, 1, 2, 3});
  OpenGroup open = CoordinatorWorld::open_message({0, 2}, "hosts");
  open.leaders_of = GroupId(0);
  w.say(0, open);
  w.say(2, CloseGroup{GroupId(0)});  // Its handover failed.
  const std::string text = w.received<Refused>(0).at(0).text;
  EXPECT_THAT(text, HasSubstr("group \"hosts\" cannot open: rank 2 ("));
  EXPECT_THAT(text, HasSubstr("closed group \"world\" before all had opened it"));
}

TEST(CoordinatorHosts, HostsThatAreTooManyAndTooUnequalAreNotShared) {
  // 300 ranks on one host and 200 on hosts of their own: 60,300 places.
  std::vector<std::string> hosts(300, "crowded");
  for (int i = 0; i < 200; ++i) hosts.push_back("single" + std::to_string(i));
  CoordinatorWorld w;
  start_on(w, hosts);
  std::vector<int> all(hosts.size());
  std::iota(all.begin(), all.end(), 0);
  w.open(all);
  const GroupOpened opened = w.received<GroupOpened>(7).at(0);
  EXPECT_EQ(opened.hosts.at(299), 299u);
  EXPECT_GT(opened.slot_count, 1u);
  w.open({0, 1, 300}, "few");
  EXPECT_EQ(w.received<GroupOpened>(0).at(1).hosts, (Hosts{0, 0, 1}));
}

TEST(CoordinatorHosts, AnAbortOfEitherGroupEndsBoth) {
  for (const GroupId late : {GroupId(0), GroupId(1)}) {
    CoordinatorWorld w;
    start_on(w, {"a", "a", "b", "b"});
    w.open({0, 1, 2, 3});
    open_leaders(w, {0, 2}, GroupId(0));
    ASSERT_EQ(w.received<GroupOpened>(2).at(1).group, GroupId(1));
    w.say(0, Overdue{late, 3, "all_reduce f32[9] sum", milliseconds(700)});
    w.pass(1s);
    for (const int r : {0, 1, 2, 3}) {
      const auto aborts = w.received<Abort>(r);
      ASSERT_EQ(aborts.size(), r % 2 == 0 ? 2u : 1u) << r;
      for (const Abort& abort : aborts) EXPECT_EQ(abort.text, w.received<Abort>(1).at(0).text);
    }
  }
}

TEST(CoordinatorHosts, PiecesThatDoNotMatchAreAskedForAsOperationsOfTheWholeGroup) {
  CoordinatorWorld w;
  start_on(w, {"a", "a", "b", "b"});
  w.open({0, 1, 2, 3});
  open_leaders(w, {0, 2}, GroupId(0));
  w.say(2, Mismatch{GroupId(1), w.rank(0), 0xA, w.rank(2), 0xB});
  const auto question = w.received<Describe>(0).at(0);
  EXPECT_EQ(question.group, GroupId(0));
  EXPECT_EQ(question.digest, 0xAu);
  w.say(0, Description{GroupId(0), question.request, 4, "barrier"});
  w.say(2, Description{GroupId(0), question.request, 4, "all_reduce f32[9] sum"});
  w.pass(1s);
  EXPECT_EQ(w.abort_text(1),
            "barrier #4 on group 0 does not match: rank 0 calls barrier; rank 2 calls "
            "all_reduce f32[9] sum");
}

}  // namespace
}  // namespace sumcast::control
