#include <gtest/gtest.h>

#include "control/coordinator_world.h"

namespace sumcast::control {
namespace {

TEST(Groups, OpenWhenAllMembersHaveAsked) {
  CoordinatorWorld w;
  w.start(3);
  w.say(2, OpenGroup{"world", w.ranks({0, 1, 2}), 1420, 8, milliseconds(5000)});
  w.say(0, OpenGroup{"world", w.ranks({0, 1, 2}), 1280, 6, milliseconds(5000)});
  EXPECT_TRUE(w.sink.opened.empty());
  w.say(1, OpenGroup{"world", w.ranks({0, 1, 2}), 8000, 9, milliseconds(5000)});
  ASSERT_EQ(w.received<GroupOpened>(0).size(), 1u);
  const GroupOpened opened = w.received<GroupOpened>(0)[0];
  EXPECT_EQ(opened.key, "world");
  EXPECT_EQ(opened.group, GroupId(0));
  EXPECT_EQ(opened.payload_bytes, 1280u);
  EXPECT_EQ(opened.slot_count, 6u);
  EXPECT_EQ(w.received<GroupOpened>(2).at(0), opened);
}

TEST(Groups, ObserversHearOfAGroupBeforeItsMembersDo) {
  CoordinatorWorld w;
  w.start(2);
  w.sink.log.clear();
  w.open({0, 1});
  EXPECT_EQ(w.sink.log, (std::vector<std::string>{"group_opened 0", "to 100: group_opened",
                                                  "to 101: group_opened"}));
  w.sink.log.clear();
  w.say(0, CloseGroup{GroupId(0)});
  EXPECT_TRUE(w.sink.log.empty());
  w.say(1, CloseGroup{GroupId(0)});
  EXPECT_EQ(w.sink.log, (std::vector<std::string>{"group_closed 0"}));
}

TEST(Groups, DifferingRanksAreAMismatchThatNamesBothAndReachesAll) {
  CoordinatorWorld w;
  w.start(3);
  w.say(0, w.open_message({0, 1, 2}, "g"));
  w.say(1, w.open_message({0, 1}, "g"));
  const std::string text =
      "group \"g\" does not match: rank 0 opens it with ranks 0-2; rank 1 opens it with ranks 0 "
      "and 1";
  w.say(2, w.open_message({0, 1, 2}, "g"));
  for (const int r : {0, 1, 2}) {
    ASSERT_EQ(w.received<Refused>(r).size(), 1u) << r;
    EXPECT_EQ(w.received<Refused>(r)[0].text, text);
    EXPECT_EQ(w.received<Refused>(r)[0].code, ErrorCode::kMismatch);
    EXPECT_EQ(w.received<Refused>(r)[0].key, "g");
  }
  w.open({0, 1, 2}, "g");
  EXPECT_EQ(w.received<GroupOpened>(1).size(), 1u);
}

TEST(Groups, TheOrderOfRanksIsPartOfTheAgreement) {
  CoordinatorWorld w;
  w.start(2);
  w.say(0, w.open_message({0, 1}, "g"));
  w.say(1, w.open_message({1, 0}, "g"));
  EXPECT_EQ(w.received<Refused>(0).at(0).text,
            "group \"g\" does not match: rank 0 opens it with ranks 0 and 1; rank 1 opens it with "
            "ranks 1, 0 in this order");
}

TEST(Groups, AfterAMismatchMembersMayTryAgain) {
  CoordinatorWorld w;
  w.start(3);
  w.say(0, w.open_message({0, 1, 2}, "g"));
  w.say(1, w.open_message({0, 1}, "g"));
  w.open({0, 1, 2}, "g");  // Rank 2 has not heard of the failure, 0 and 1 have.
  EXPECT_EQ(w.received<GroupOpened>(0).size(), 1u);
}

TEST(Groups, MembersMissingAtTheDeadlineAreAllNamed) {
  CoordinatorWorld w;
  w.start(4);
  w.say(1, w.open_message({0, 1, 2, 3}, "g"));
  w.pass(2s);
  w.say(0, w.open_message({0, 1, 2, 3}, "g"));
  w.pass(3s);
  for (const int r : {0, 1}) {
    ASSERT_EQ(w.received<Refused>(r).size(), 1u);
    EXPECT_EQ(w.received<Refused>(r)[0].code, ErrorCode::kTimeout);
    EXPECT_EQ(w.received<Refused>(r)[0].text,
              "waiting for 2 of 4 ranks: ranks 2 and 3 never opened group \"g\" (waited 5.0 s)");
  }
  EXPECT_TRUE(w.coordinator.status(w.now).jobs.at(0).groups_pending.empty());
}

TEST(Groups, RefuseWhatMakesNoSense) {
  CoordinatorWorld w;
  w.start(3);
  const auto refusal = [&](const OpenGroup& open) {
    w.say(0, open);
    return w.received<Refused>(0).back().text;
  };
  EXPECT_EQ(refusal(w.open_message({0, 3}, "g")), "group \"g\": rank 3 is outside a world of 3");
  EXPECT_EQ(refusal(w.open_message({0, 1, 0}, "g")), "group \"g\": a rank occurs twice");
  EXPECT_EQ(refusal(w.open_message({1, 2}, "g")),
            "group \"g\": rank 0 asks for it but is not among its ranks");
  EXPECT_EQ(refusal(w.open_message({}, "g")), "group \"g\": no key or no ranks");
  w.say(0, w.open_message({0, 1}, "g"));
  EXPECT_EQ(refusal(w.open_message({0, 1}, "g")), "rank 0 already waits for group \"g\"");
}

TEST(Groups, OwnDisjointRangesOfSlotsAndLaterOnesGetLess) {
  CoordinatorWorld w;
  w.start(2);
  std::vector<bool> taken(64, false);
  int groups = 0;
  while (w.received<Refused>(0).empty()) {
    w.open({0, 1}, fmt::format("g{}", groups), 1000);
    ++groups;
    ASSERT_LE(groups, 65);
  }
  for (const GroupPlan& plan : w.sink.opened) {
    ASSERT_GE(plan.slot_count, 1u);
    for (uint32_t i = 0; i < plan.slot_count; ++i) {
      ASSERT_FALSE(taken.at(plan.slot_base.value + i));
      taken[plan.slot_base.value + i] = true;
    }
  }
  EXPECT_EQ(w.sink.opened[0].slot_count, 32u);
  EXPECT_EQ(w.sink.opened[1].slot_count, 4u);
  EXPECT_GT(w.sink.opened.size(), 16u);
  EXPECT_EQ(std::count(taken.begin(), taken.end(), true), 64);
  const Refused refused = w.received<Refused>(1).at(0);
  EXPECT_EQ(refused.code, ErrorCode::kNoSlots);
  EXPECT_EQ(refused.text,
            fmt::format("group \"g{}\": all 64 slots of job \"x\" are taken by {} open groups; "
                        "close some, or give the aggregator more slots",
                        groups - 1, groups - 1));
}

TEST(Groups, OpenAndCloseThousandsOfTimesWithoutGrowth) {
  CoordinatorWorld w;
  w.start(2);
  for (int i = 0; i < 70'000; ++i) {
    const std::string key = fmt::format("g{}", i);
    w.open({0, 1}, key);
    ASSERT_EQ(w.sink.opened.size(), 1u) << i;
    const GroupPlan plan = w.sink.opened[0];
    ASSERT_EQ(plan.group.value, i % 65535 + 1);
    ASSERT_EQ(plan.slot_base, SlotIndex(0));
    w.does(0, {plan.group, 1, 1, "barrier", {}, ""});
    w.say(0, CloseGroup{plan.group});
    w.say(1, CloseGroup{plan.group});
    w.sink.opened.clear();
    w.sink.inbox.clear();
    w.sink.log.clear();
  }
  const JobStatus status = w.coordinator.status(w.now).jobs.at(0);
  EXPECT_EQ(status.slots_in_use, 0u);
  EXPECT_TRUE(status.groups.empty());
  EXPECT_TRUE(status.ranks[0].groups.empty());
}

TEST(Groups, AnIdIsNotReusedBeforeAllMembersHaveClosedIt) {
  CoordinatorWorld w;
  w.start(2);
  w.open({0, 1}, "kept");
  const GroupId kept = w.sink.opened[0].group;
  w.say(0, CloseGroup{kept});
  for (int i = 0; i < 66'000; ++i) {
    w.say(0, w.open_message({0}, "short"));
    const GroupId id = w.sink.opened.back().group;
    ASSERT_NE(id, kept);
    w.say(0, CloseGroup{id});
    w.sink.opened.clear();
    w.sink.inbox.clear();
    w.sink.log.clear();
  }
}

TEST(Groups, ThatNameALostRankFailAtOnce) {
  CoordinatorWorld w;
  w.start(3);
  w.say(0, w.open_message({0, 2}, "waits"));
  w.hang_up(2);
  EXPECT_EQ(w.received<Refused>(0).at(0).text,
            "group \"waits\" cannot open: rank 2 (host-2:77 at 10.0.0.3) died: connection closed; "
            "it had posted no operation yet");
  EXPECT_EQ(w.received<Refused>(0).at(0).code, ErrorCode::kAborted);
  w.say(1, w.open_message({1, 2}, "later"));
  EXPECT_EQ(w.received<Refused>(1).at(0).text,
            "group \"later\" cannot open: rank 2 (host-2:77 at 10.0.0.3) has died");
  w.say(1, Leave{});
  w.say(0, w.open_message({0, 1}, "left"));
  EXPECT_EQ(w.received<Refused>(0).at(1).text,
            "group \"left\" cannot open: rank 1 (host-1:77 at 10.0.0.2) has left");
}

TEST(Groups, ALimitHoldsForThoseThatWaitForMembers) {
  CoordinatorConfig config = CoordinatorWorld::default_config();
  config.pending_max = 3;
  CoordinatorWorld w(config);
  w.start(2);
  for (int i = 0; i < 4; ++i) w.say(0, w.open_message({0, 1}, fmt::format("g{}", i)));
  EXPECT_EQ(w.received<Refused>(0).at(0).text, "group \"g3\": 3 groups already wait to open");
}

}  // namespace
}  // namespace sumcast::control
