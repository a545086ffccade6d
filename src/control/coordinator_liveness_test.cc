#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "control/coordinator_world.h"

namespace sumcast::control {
namespace {

const std::string kOperation = "all_reduce f32[1000] sum";

TEST(Liveness, AClosedConnectionAbortsTheGroupsOfTheRankForAllWithOneText) {
  CoordinatorWorld w;
  w.start(4);
  w.open({0, 1, 2, 3});
  w.open({0, 1}, "other");
  w.does(2, {GroupId(0), 12, 11, kOperation, milliseconds(20), ""});
  w.now = w.now + 15ms;
  w.hang_up(2);
  const std::string text =
      "rank 2 (host-2:77 at 10.0.0.3) died: connection closed; its last operation: all_reduce #12 "
      "on group 0, begun 35 ms ago";
  for (const int r : {0, 1, 3}) {
    EXPECT_EQ(w.abort_text(r), text) << r;
    EXPECT_EQ(w.received<Abort>(r).at(0).code, ErrorCode::kAborted);
    EXPECT_EQ(w.received<Abort>(r).at(0).group, GroupId(0));
    EXPECT_EQ(w.received<Abort>(r).at(0).ranks, w.ranks({2}));
  }
}

TEST(Liveness, SilenceIsDeathAfterOneAndAHalfSeconds) {
  CoordinatorWorld w;
  w.start(2);
  w.open({0, 1});
  w.does(1, {GroupId(0), 3, 3, kOperation, milliseconds(5), ""});
  w.pass(1s);
  w.beating.erase(1);
  w.beat(1);
  w.pass(1499ms);
  EXPECT_TRUE(w.received<Abort>(0).empty());
  w.pass(1ms);
  EXPECT_EQ(w.abort_text(0),
            "rank 1 (host-1:77 at 10.0.0.2) died: no heartbeat for 1.5 s; its last operation: "
            "all_reduce #3 on group 0, completed 1.5 s ago");
  ASSERT_EQ(w.received<Abort>(1).size(), 1u);
  EXPECT_FALSE(w.received<Abort>(1).at(0).group.has_value());
  EXPECT_THAT(w.abort_text(1), testing::EndsWith(" has given rank 1 (host-1:77 at 10.0.0.2) up: no "
                                                 "heartbeat for 1.5 s"));
  EXPECT_TRUE(w.sink.closed.contains(w.connection(1)));
  w.hang_up(1);  // The owner's report of the closed connection changes nothing.
  EXPECT_EQ(w.received<Abort>(0).size(), 1u);
  EXPECT_EQ(w.coordinator.status(w.now).counters.deaths, 1u);
}

TEST(Liveness, TheFirstHeartbeatOfALargeWorldMayTakeLonger) {
  CoordinatorWorld w;
  w.start(100);
  w.say(0, w.open_message({0, 99}, "g"));  // Fails when rank 99, which says nothing, is dead.
  w.beating.erase(99);
  w.pass(2499ms);
  EXPECT_TRUE(w.received<Refused>(0).empty());
  w.pass(1ms);
  EXPECT_EQ(w.received<Refused>(0).size(), 1u);
}

TEST(Liveness, TimeInWhichNobodyListenedIsNoSilence) {
  CoordinatorWorld w;
  w.start(2);
  w.open({0, 1});
  w.now = w.now + 5s;  // Asleep; nothing could be heard.
  w.coordinator.on_pause(4800ms, w.now);
  w.coordinator.on_timeout(w.now);
  EXPECT_TRUE(w.received<Abort>(0).empty());
  w.beating = {0};
  w.beat(0);
  w.next_beat = w.now;
  w.pass(1299ms);
  EXPECT_TRUE(w.received<Abort>(0).empty());
  w.pass(1ms);
  EXPECT_EQ(w.received<Abort>(0).size(), 1u);
}

TEST(Liveness, RanksLostTogetherAreNamedTogether) {
  CoordinatorWorld w;
  w.start(3);
  w.open({0, 1, 2});
  w.beating = {0};
  w.pass(2s);
  EXPECT_EQ(w.abort_text(0),
            "rank 1 (host-1:77 at 10.0.0.2) died: no heartbeat for 1.5 s; it had posted no "
            "operation yet; rank 2 (host-2:77 at 10.0.0.3) died: no heartbeat for 1.5 s; it had "
            "posted no operation yet");
}

TEST(Liveness, AnyMessageIsASignOfLife) {
  CoordinatorWorld w;
  w.start(2);
  w.open({0, 1});
  w.beating = {0};
  for (int i = 0; i < 5; ++i) {
    w.pass(1s);
    w.say(1, CloseGroup{GroupId(9)});
  }
  EXPECT_TRUE(w.received<Abort>(0).empty());
}

TEST(Liveness, AnAbortedGroupIsReleasedWhenTheSurvivorsCloseIt) {
  CoordinatorWorld w;
  w.start(3);
  w.open({0, 1, 2});
  w.hang_up(1);
  w.say(0, CloseGroup{GroupId(0)});
  EXPECT_EQ(w.coordinator.status(w.now).jobs[0].slots_in_use, 8u);
  w.say(2, CloseGroup{GroupId(0)});
  EXPECT_EQ(w.coordinator.status(w.now).jobs[0].slots_in_use, 0u);
  w.open({0, 2}, "world");
  EXPECT_EQ(w.received<GroupOpened>(2).size(), 2u);
}

TEST(Liveness, AJobEndsWithGoodbyeWhenAllHaveLeft) {
  CoordinatorWorld w;
  w.start(2);
  w.open({0, 1});
  w.say(0, Leave{{{GroupId(0), 4, 4, kOperation, {}, ""}}});
  ASSERT_EQ(w.received<Left>(1).size(), 1u);
  EXPECT_EQ(w.received<Left>(1)[0], (Left{Rank(0), {{GroupId(0), 4}}}));
  EXPECT_TRUE(w.received<Goodbye>(0).empty());
  w.sink.log.clear();
  w.say(1, Leave{});
  EXPECT_EQ(w.sink.log,
            (std::vector<std::string>{"group_closed 0", "to 100: goodbye", "to 101: goodbye",
                                      "close 100", "close 101", "job_ended"}));
  EXPECT_TRUE(w.received<Abort>(0).empty());
  EXPECT_TRUE(w.received<Abort>(1).empty());
  w.hang_up(0);
  w.hang_up(1);
  EXPECT_TRUE(w.coordinator.status(w.now).jobs.empty());
  EXPECT_EQ(w.coordinator.next_deadline(), Instant::never());
}

TEST(Liveness, ARankThatLeftMaySilentlyGo) {
  CoordinatorWorld w;
  w.start(2);
  w.open({0, 1});
  w.say(0, Leave{});
  w.hang_up(0);
  w.pass(5s);
  EXPECT_TRUE(w.received<Abort>(1).empty());
}

TEST(Liveness, LeavingWhileOthersWaitAbortsAtOnce) {
  CoordinatorWorld w;
  w.start(3);
  w.open({0, 1, 2});
  w.does(1, {GroupId(0), 12, 11, kOperation, milliseconds(5), ""});
  w.say(2, Leave{{{GroupId(0), 11, 11, kOperation, {}, ""}}});
  for (const int r : {0, 1}) {
    EXPECT_EQ(w.abort_text(r),
              "rank 2 (host-2:77 at 10.0.0.3) left, but all_reduce #12 on group 0 waits for it");
    EXPECT_EQ(w.received<Abort>(r)[0].ranks, w.ranks({2}));
  }
}

TEST(Liveness, PostingAfterARankHasLeftAbortsWithTheNextHeartbeat) {
  CoordinatorWorld w;
  w.start(2);
  w.open({0, 1});
  w.say(1, Leave{{{GroupId(0), 2, 2, kOperation, {}, ""}}});
  w.does(0, {GroupId(0), 2, 2, kOperation, {}, ""});
  EXPECT_TRUE(w.received<Abort>(0).empty());
  w.does(0, {GroupId(0), 3, 2, kOperation, {}, ""});
  EXPECT_EQ(w.abort_text(0),
            "rank 1 (host-1:77 at 10.0.0.2) left, but all_reduce #3 on group 0 waits for it");
}

TEST(Liveness, GroupsThatWaitForARankThatLeavesAreRefused) {
  CoordinatorWorld w;
  w.start(2);
  w.say(0, w.open_message({0, 1}, "g"));
  w.say(1, Leave{});
  EXPECT_EQ(w.received<Refused>(0).at(0).text,
            "group \"g\" cannot open: rank 1 (host-1:77 at 10.0.0.2) left");
}

TEST(Liveness, AJobWhoseRanksAllDieEndsAndFreesEverything) {
  CoordinatorWorld w;
  w.start(2);
  w.open({0, 1});
  w.hang_up(0);
  w.hang_up(1);
  EXPECT_EQ(w.sink.log.back(), "job_ended");
  EXPECT_EQ(w.sink.log[w.sink.log.size() - 2], "group_closed 0");
  EXPECT_TRUE(w.coordinator.status(w.now).jobs.empty());
}

TEST(Liveness, StatusShowsRanksGroupsAndAges) {
  CoordinatorWorld w;
  w.start(2);
  w.open({0, 1});
  w.does(0, {GroupId(0), 2, 1, kOperation, milliseconds(100), "epoch 3"});
  w.now = w.now + 50ms;
  const JobStatus status = w.coordinator.status(w.now).jobs.at(0);
  EXPECT_TRUE(status.running);
  ASSERT_EQ(status.ranks.size(), 2u);
  EXPECT_EQ(status.ranks[0].state, RankState::kLive);
  EXPECT_EQ(status.ranks[0].groups.at(0).age, milliseconds(150));
  EXPECT_EQ(status.ranks[0].groups.at(0).tag, "epoch 3");
  ASSERT_EQ(status.groups.size(), 1u);
  EXPECT_EQ(status.groups[0].key, "world");
  EXPECT_EQ(name_of(status.ranks[1].state), "live");
}

}  // namespace
}  // namespace sumcast::control
