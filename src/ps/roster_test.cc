#include "ps/roster.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "ps/base.h"

namespace sumcast::ps {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

::ps::Node node(::ps::Node::Role role, const std::string& host, int port, int customer = 0) {
  ::ps::Node made;
  made.role = role;
  made.hostname = host;
  made.port = port;
  made.customer_id = customer;
  return made;
}

constexpr auto kServer = ::ps::Node::SERVER;
constexpr auto kWorker = ::ps::Node::WORKER;

TEST(Roster, RanksFollowHostAndPortAndNotTheOrderOfArrival) {
  Roster roster(2, 2);
  EXPECT_TRUE(roster.add(node(kServer, "b", 1)));
  EXPECT_TRUE(roster.add(node(kWorker, "b", 2)));
  EXPECT_TRUE(roster.add(node(kWorker, "a", 9)));
  EXPECT_FALSE(roster.is_complete());
  EXPECT_EQ(roster.missing_text(),
            "1 of 2 servers and 2 of 2 workers have come: server b:1, worker b:2, worker a:9");
  EXPECT_TRUE(roster.add(node(kServer, "a", 10)));
  ASSERT_TRUE(roster.is_complete());
  std::vector<std::string> text;
  for (const auto& n : roster.nodes()) text.push_back(n.ShortDebugString() + n.hostname);
  EXPECT_THAT(text, ElementsAre("W[9]a", "S[8]a", "S[10]b", "W[11]b"));
}

TEST(Roster, CustomersOfOneProcessShareAnIdAndUseUpRanks) {
  Roster roster(1, 3);
  EXPECT_TRUE(roster.add(node(kWorker, "a", 1, 1)));
  EXPECT_TRUE(roster.add(node(kWorker, "b", 1)));
  EXPECT_TRUE(roster.add(node(kServer, "c", 1)));
  EXPECT_TRUE(roster.add(node(kWorker, "a", 1, 0)));
  ASSERT_TRUE(roster.is_complete());
  std::vector<int> ids;
  for (const auto& n : roster.nodes()) ids.push_back(n.id);
  EXPECT_THAT(ids, ElementsAre(9, 13, 8));
}

TEST(Roster, OneTooManyAndOneTwiceAreRefused) {
  Roster roster(1, 2);
  EXPECT_TRUE(roster.add(node(kServer, "a", 1)));
  const auto second = roster.add(node(kServer, "a", 2));
  ASSERT_FALSE(second);
  EXPECT_THAT(second.error().what, HasSubstr("DMLC_NUM_SERVER"));
  EXPECT_TRUE(roster.add(node(kWorker, "a", 3)));
  EXPECT_FALSE(roster.add(node(kWorker, "a", 3)));
  roster.remove("a", 3);
  EXPECT_TRUE(roster.add(node(kWorker, "a", 4)));
}

TEST(Roster, ManyNodesHaveIdsOfTheirOwn) {
  constexpr int kNodes = 1000;
  Roster roster(kNodes, kNodes);
  for (int i = 0; i < kNodes; ++i) {
    EXPECT_TRUE(roster.add(node(kServer, "s", i + 1)));
    EXPECT_TRUE(roster.add(node(kWorker, "w", i + 1)));
  }
  ASSERT_TRUE(roster.is_complete());
  std::set<int> ids;
  for (const auto& n : roster.nodes()) ids.insert(n.id);
  EXPECT_EQ(ids.size(), 2u * kNodes);
  EXPECT_EQ(*ids.rbegin(), 2 * (kNodes - 1) + 9);
}

TEST(Roster, ABarrierIsOverWhenTheGroupHasArrivedAndCanBeUsedAgain) {
  Roster roster(1, 2);
  for (uint64_t round = 0; round < 3; ++round) {
    EXPECT_TRUE(roster.arrive(4, {9, 0, round}).empty());
    EXPECT_TRUE(roster.arrive(7, {8, 0, round}).empty());  // Another group waits beside it.
    const auto all = roster.arrive(4, {11, 0, round + 100});
    ASSERT_EQ(all.size(), 2u);
    EXPECT_EQ(all[1].token, round + 100);
    std::string text;
    EXPECT_EQ(roster.break_up(7, &text).size(), 1u);
    EXPECT_EQ(
        text,
        "the scheduler, worker 0 (id 9), worker 1 (id 11) did not come to the barrier of group 7");
  }
}

TEST(Roster, ALongListOfMissingNodesIsCut) {
  Roster roster(1, 300);
  roster.arrive(6, {8, 0, 1});
  std::string text;
  roster.break_up(6, &text);
  EXPECT_THAT(text, HasSubstr("worker 9 (id 27) and 290 others did not come"));
}

TEST(Roster, WhoIsMissingAtWhichBarrier) {
  Roster roster(1, 2);
  roster.arrive(4, {9, 0, 1});
  roster.arrive(6, {8, 0, 1});
  EXPECT_THAT(roster.barriers_without(11), ElementsAre(4, 6));
  EXPECT_THAT(roster.barriers_without(9), ElementsAre(6));
  EXPECT_THAT(roster.barriers_without(1), ElementsAre());
}

TEST(Roster, GroupsAddUp) {
  EXPECT_THAT(group_members(7, 2, 1), ElementsAre(8, 10, 9, 1));
  EXPECT_THAT(group_members(4, 2, 1), ElementsAre(9));
  EXPECT_THAT(group_members(10, 2, 1), ElementsAre(10));
  for (int group = 1; group < 8; ++group) {
    const auto members = group_members(group, 2, 2);
    for (int id : {1, 8, 9, 10, 11}) {
      EXPECT_EQ(is_member(group, id),
                std::find(members.begin(), members.end(), id) != members.end());
    }
  }
  EXPECT_TRUE(is_member(10, 10));
  EXPECT_FALSE(is_member(10, 8));
}

TEST(Roster, BarriersDoWithoutWhoIsExcused) {
  Roster roster(2, 1);
  EXPECT_TRUE(roster.arrive(6, {8, 0, 1}).empty());
  EXPECT_TRUE(roster.arrive(6, {9, 0, 2, true}).empty());
  EXPECT_TRUE(roster.arrive(2, {8, 0, 3}).empty());
  const auto complete = roster.excuse(10);
  ASSERT_EQ(complete.size(), 2u);
  EXPECT_EQ(complete.at(6).size(), 2u);
  EXPECT_TRUE(complete.at(6)[1].patient);
  EXPECT_TRUE(roster.arrive(2, {10, 0, 4}).empty());  // It does not know yet.
  EXPECT_EQ(roster.arrive(2, {8, 0, 5}).size(), 1u);
  EXPECT_TRUE(roster.barriers_without(10).empty());
}

TEST(Roster, WhoHadArrivedBeforeItWasExcusedDoesNotCount) {
  Roster roster(2, 1);
  EXPECT_TRUE(roster.arrive(6, {8, 0, 1}).empty());
  EXPECT_TRUE(roster.arrive(6, {10, 0, 2}).empty());
  EXPECT_TRUE(roster.excuse(10).empty());
  EXPECT_EQ(roster.arrive(6, {9, 0, 3}).size(), 2u);
}

}  // namespace
}  // namespace sumcast::ps
