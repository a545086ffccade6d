// Who waits for long is told for what.
#include <gtest/gtest.h>

#include "control/coordinator_world.h"

namespace sumcast::control {
namespace {

const std::string kOperation = "all_reduce f32[1000] sum";

std::vector<std::string> notices(CoordinatorWorld& w, int r) {
  std::vector<std::string> texts;
  for (const Waiting& one : w.received<Waiting>(r)) texts.push_back(one.text);
  return texts;
}

TEST(Notices, WhoWaitsToJoinHearsWhoIsMissingAfterFiveSecondsAndThenAtDoublingIntervals) {
  CoordinatorWorld w;
  w.join(0, 4);
  w.pass(4999ms);
  EXPECT_TRUE(notices(w, 0).empty());
  w.join(2, 4);
  w.pass(1ms);
  EXPECT_EQ(notices(w, 0),
            std::vector<std::string>{
                "rank 0 has waited 5.0 s to join job \"x\" at 10.0.0.1:4711: 2 of 4 workers are "
                "missing: ranks 1 and 3; it gives up in 5.0 s"});
  EXPECT_TRUE(notices(w, 2).empty());
  w.join(1, 4);
  w.hang_up(1);
  w.pass(4998ms);
  ASSERT_EQ(notices(w, 2).size(), 0u);
  w.pass(1ms);
  EXPECT_EQ(notices(w, 2),
            std::vector<std::string>{
                "rank 2 has waited 5.0 s to join job \"x\" at 10.0.0.1:4711: 2 of 4 workers are "
                "missing: ranks 1 and 3; rank 1 had come and went away again; it gives up in "
                "1 ms"});
  w.pass(1ms);
  EXPECT_EQ(w.received<Refused>(0).size(), 1u);
  EXPECT_EQ(notices(w, 0).size(), 1u);
}

TEST(Notices, AWorldThatIsCompleteHearsNothing) {
  CoordinatorWorld w;
  w.start(3);
  w.open({0, 1, 2});
  w.pass(200s);
  for (const int r : {0, 1, 2}) EXPECT_TRUE(notices(w, r).empty());
}

/// A job of four with the world group; rank 2 has not posted #12.
void set_up(CoordinatorWorld& w, milliseconds age, milliseconds left) {
  w.start(4);
  w.open({0, 1, 2, 3});
  for (const int r : {0, 1, 3}) w.does(r, {GroupId(0), 12, 11, kOperation, age, "", left});
  w.does(2, {GroupId(0), 11, 11, kOperation, milliseconds(40'000), "in data loader"});
}

TEST(Notices, AnOperationThatWaitsNamesWhoHasNotPostedIt) {
  CoordinatorWorld w;
  set_up(w, milliseconds(100), milliseconds(90'000));
  w.pass(30s);
  EXPECT_TRUE(notices(w, 0).empty());  // Young, by its own account.
  for (const int r : {0, 1, 3}) {
    w.does(r, {GroupId(0), 12, 11, kOperation, milliseconds(30'000), "", milliseconds(60'000)});
  }
  ASSERT_EQ(notices(w, 0).size(), 1u);
  EXPECT_EQ(notices(w, 0)[0],
            "all_reduce #12 on group 0 has waited 30.0 s for 1 of 4 ranks: rank 2 (last posted #11 "
            "all_reduce f32[1000] sum, completed, 40.0 s ago, \"in data loader\"); it fails in "
            "60.0 s");
  EXPECT_EQ(w.received<Waiting>(0)[0].group, GroupId(0));
  EXPECT_EQ(notices(w, 3), notices(w, 0));
  EXPECT_TRUE(notices(w, 2).empty());
}

TEST(Notices, AnOperationThatWaitsOnIsNamedAgainWhenItsWaitHasDoubled) {
  CoordinatorWorld w;
  set_up(w, milliseconds(3'600'000), milliseconds(0));
  w.pass(119s);
  EXPECT_EQ(notices(w, 1).size(), 2u);  // At 30 and 60 s.
  w.pass(2s);
  EXPECT_EQ(notices(w, 1).size(), 3u);
  EXPECT_EQ(notices(w, 1)[2].find("it fails in"), std::string::npos);  // No end is known.
}

TEST(Notices, AQueueThatMovesHearsNothing) {
  CoordinatorWorld w;
  w.start(2);
  w.open({0, 1});
  for (uint64_t done = 0; done < 100; ++done) {
    for (const int r : {0, 1}) {
      w.does(r, {GroupId(0), 200, done, kOperation, milliseconds(1000 * done), ""});
    }
    w.pass(1s);
  }
  EXPECT_TRUE(notices(w, 0).empty());
}

TEST(Notices, AnOperationThatAllHavePostedSaysSo) {
  CoordinatorWorld w;
  w.start(2);
  w.open({0, 1});
  for (const int r : {0, 1}) {
    w.does(r, {GroupId(0), 1, 0, kOperation, milliseconds(50'000), "", milliseconds(10'000)});
  }
  w.pass(31s);
  ASSERT_EQ(notices(w, 0).size(), 1u);
  EXPECT_EQ(notices(w, 0)[0],
            "all_reduce #1 on group 0 has waited 30.0 s though all 2 ranks have posted it: a slow "
            "path, or something between them is overloaded; it fails in 10.0 s");
}

TEST(Notices, AGroupThatDoesNotOpenNamesWhoHasNotAsked) {
  CoordinatorWorld w;
  w.start(3);
  OpenGroup open = w.open_message({0, 1, 2}, "late");
  open.timeout = std::chrono::seconds(60);
  w.say(0, open);
  w.pass(29s);
  EXPECT_TRUE(notices(w, 0).empty());
  w.pass(1250ms);
  ASSERT_EQ(notices(w, 0).size(), 1u);
  EXPECT_TRUE(
      notices(w, 0)[0].starts_with("group \"late\" has waited 30.0 s for 2 of 3 ranks to open it: "
                                   "ranks 1 and 2; it gives up in "))
      << notices(w, 0)[0];
  EXPECT_TRUE(notices(w, 1).empty());
}

}  // namespace
}  // namespace sumcast::control
