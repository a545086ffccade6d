#include <gtest/gtest.h>

#include "control/coordinator_world.h"

namespace sumcast::control {
namespace {

TEST(Join, WelcomesAllOnceTheLastRankIsThere) {
  CoordinatorWorld w;
  w.join(1, 2);
  EXPECT_TRUE(w.received<Welcome>(1).empty());
  w.join(0, 2);
  ASSERT_EQ(w.received<Welcome>(0).size(), 1u);
  ASSERT_EQ(w.received<Welcome>(1), w.received<Welcome>(0));
  const Welcome welcome = w.received<Welcome>(0)[0];
  EXPECT_EQ(welcome.incarnation, Incarnation(1));
  ASSERT_EQ(welcome.members.size(), 2u);
  EXPECT_EQ(welcome.members[1].rank, Rank(1));
  EXPECT_EQ(welcome.members[1].name, "host-1:77");
  EXPECT_EQ(welcome.members[1].address, "10.0.0.2");
  EXPECT_EQ(welcome.heartbeat, milliseconds(250));
}

TEST(Join, ObserversHearOfTheJobBeforeItsMembersDo) {
  CoordinatorWorld w;
  w.start(2);
  ASSERT_EQ(w.sink.log.front(), "job_started");
  ASSERT_EQ(w.sink.started.size(), 1u);
  EXPECT_EQ(w.sink.started[0].members.size(), 2u);
  EXPECT_EQ(w.sink.started[0].slots, 64u);
}

TEST(Join, NamesAllMissingRanksAtTheDeadlineOfTheFirst) {
  CoordinatorWorld w;
  for (const int r : {0, 1, 2, 3, 4}) w.join(r, 8);
  w.pass(4s);
  w.join(7, 8);
  w.pass(5999ms);
  EXPECT_TRUE(w.received<Refused>(0).empty());
  w.pass(1ms);
  const std::string text =
      "waiting for 2 of 8 workers: ranks 5 and 6 never joined job \"x\" at 10.0.0.1:4711 "
      "(waited 10.0 s)";
  for (const int r : {0, 1, 2, 3, 4, 7}) {
    ASSERT_EQ(w.received<Refused>(r).size(), 1u) << r;
    EXPECT_EQ(w.received<Refused>(r)[0].code, ErrorCode::kTimeout);
    EXPECT_EQ(w.received<Refused>(r)[0].text, text);
    EXPECT_TRUE(w.sink.closed.contains(w.connection(r)));
  }
  EXPECT_TRUE(w.coordinator.status(w.now).jobs.empty());
  EXPECT_EQ(w.sink.started.size(), 0u);
}

TEST(Join, RefusesARankThatNamesAnotherWorldAndKeepsTheOthers) {
  CoordinatorWorld w;
  w.join(0, 2);
  w.connect(ConnectionId(1), "10.0.0.9");
  w.coordinator.on_message(ConnectionId(1), w.join_message(1, 3), w.now);
  const Refused refused = std::get<Refused>(w.sink.inbox[ConnectionId(1)].at(0));
  EXPECT_EQ(refused.text,
            "rank 1 joins job \"x\" with a world of 3, but rank 0 joined with a world of 2");
  EXPECT_EQ(refused.code, ErrorCode::kMismatch);
  EXPECT_TRUE(w.sink.closed.contains(ConnectionId(1)));
  EXPECT_TRUE(w.sink.inbox[w.connection(0)].empty());
  w.join(1, 2);
  EXPECT_EQ(w.received<Welcome>(0).size(), 1u);
}

TEST(Join, SaysWhichRankCameAndWentAwayAgain) {
  CoordinatorWorld w;
  w.join(0, 3);
  w.join(1, 3);
  w.hang_up(1);
  w.pass(10s);
  EXPECT_EQ(w.received<Refused>(0).at(0).text,
            "waiting for 2 of 3 workers: ranks 1 and 2 never joined job \"x\" at 10.0.0.1:4711 "
            "(waited 10.0 s); rank 1 had come and went away again");
}

TEST(Join, ARankLostWhileOthersWaitMayComeBack) {
  CoordinatorWorld w;
  w.join(0, 3);
  w.join(1, 3);
  w.hang_up(1);
  w.join(1, 3);
  w.join(2, 3);
  EXPECT_EQ(w.received<Welcome>(0).size(), 1u);
  EXPECT_EQ(w.received<Welcome>(1).size(), 1u);
}

TEST(Join, RefusesASecondRankOfTheSameNumberAndKeepsTheFirst) {
  CoordinatorWorld w;
  w.join(0, 2);
  w.connect(ConnectionId(1), "10.0.0.9");
  w.coordinator.on_message(ConnectionId(1), w.join_message(0, 2), w.now);
  const Refused refused = std::get<Refused>(w.sink.inbox[ConnectionId(1)].at(0));
  EXPECT_EQ(refused.code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(refused.text, "rank 0 (host-0:77 at 10.0.0.1) has already joined job \"x\"");
  w.coordinator.on_disconnected(ConnectionId(1), "connection closed", w.now);
  w.join(1, 2);
  EXPECT_EQ(w.received<Welcome>(0).size(), 1u);
}

TEST(Join, RefusesWhatMakesNoSense) {
  CoordinatorWorld w;
  const auto refusal = [&](const Join& join) {
    static uint64_t next = 1;
    const ConnectionId id(next++);
    w.connect(id, "10.0.0.9");
    w.coordinator.on_message(id, join, w.now);
    return std::get<Refused>(w.sink.inbox[id].at(0)).text;
  };
  EXPECT_EQ(refusal(w.join_message(2, 2)), "rank 2 is outside a world of 2");
  EXPECT_EQ(refusal(w.join_message(0, 0)), "a world of 0 ranks is outside 1..1024");
  EXPECT_EQ(refusal(w.join_message(0, 5000)), "a world of 5000 ranks is outside 1..1024");
  EXPECT_EQ(refusal(w.join_message(0, 1, "")), "the job's name is empty");
  EXPECT_EQ(refusal(w.join_message(0, 1, std::string(300, 'j'))),
            "\"jjjjjjjjjjjjjjjjjjjj...\" is longer than 255 bytes");
}

TEST(Join, KeepsJobsOfDifferentNamesApart) {
  CoordinatorWorld w;
  w.start(2);
  for (const int r : {0, 1}) {
    const ConnectionId id(static_cast<uint64_t>(r + 1));
    w.connect(id, "10.0.0.9");
    w.coordinator.on_message(id, w.join_message(r, 2, "y"), w.now);
  }
  ASSERT_EQ(w.sink.started.size(), 2u);
  EXPECT_NE(w.sink.started[0].incarnation, w.sink.started[1].incarnation);
  w.coordinator.on_disconnected(ConnectionId(1), "connection closed", w.now);
  w.coordinator.on_disconnected(ConnectionId(2), "connection closed", w.now);
  w.pass(3s);
  EXPECT_EQ(w.coordinator.status(w.now).jobs.size(), 1u);
}

TEST(Join, ANameIsFreeAgainWhenAllRanksOfItsJobAreGone) {
  CoordinatorWorld w;
  w.start(2);
  w.hang_up(1);
  w.connect(ConnectionId(1), "10.0.0.2");
  w.coordinator.on_message(ConnectionId(1), w.join_message(1, 2), w.now);
  EXPECT_EQ(std::get<Refused>(w.sink.inbox[ConnectionId(1)].at(0)).text,
            "job \"x\" is already running at 10.0.0.1:4711 with 1 of 2 workers alive; choose "
            "another name (SUMCAST_JOB) or end it first");
  w.hang_up(0);
  w.join(0, 2);
  w.join(1, 2);
  ASSERT_EQ(w.sink.started.size(), 2u);
  EXPECT_EQ(w.sink.started[1].incarnation, Incarnation(2));
}

TEST(Join, ClosesAConnectionThatNeverJoins) {
  CoordinatorWorld w;
  w.connect(ConnectionId(1), "10.0.0.9");
  w.pass(4999ms);
  EXPECT_FALSE(w.sink.closed.contains(ConnectionId(1)));
  w.pass(1ms);
  EXPECT_TRUE(w.sink.closed.contains(ConnectionId(1)));
}

TEST(Join, ClosesAConnectionThatSpeaksBeforeItJoinsOrJoinsTwice) {
  CoordinatorWorld w;
  w.connect(ConnectionId(1), "10.0.0.9");
  w.coordinator.on_message(ConnectionId(1), CloseGroup{}, w.now);
  EXPECT_TRUE(w.sink.closed.contains(ConnectionId(1)));
  w.start(2);
  w.say(0, w.join_message(0, 2));
  EXPECT_TRUE(w.sink.closed.contains(w.connection(0)));
  EXPECT_EQ(w.coordinator.status(w.now).counters.violations, 2u);
}

TEST(Join, AShutdownTellsThoseWhoWaitAndThoseWhoRun) {
  CoordinatorWorld w;
  w.start(2);
  w.connect(ConnectionId(1), "10.0.0.9");
  w.coordinator.on_message(ConnectionId(1), w.join_message(0, 2, "y"), w.now);
  w.coordinator.on_shutdown();
  EXPECT_EQ(std::get<Refused>(w.sink.inbox[ConnectionId(1)].at(0)).text,
            "the coordinator at 10.0.0.1:4711 is shutting down");
  EXPECT_EQ(w.abort_text(0), "the coordinator at 10.0.0.1:4711 is shutting down");
  EXPECT_FALSE(w.received<Abort>(0).at(0).group.has_value());
  EXPECT_EQ(std::count(w.sink.log.begin(), w.sink.log.end(), "job_ended"), 1);
  EXPECT_TRUE(w.coordinator.status(w.now).jobs.empty());
}

}  // namespace
}  // namespace sumcast::control
