#include <gtest/gtest.h>

#include "control/coordinator_world.h"
#include "control/wording.h"

namespace sumcast::control {
namespace {

const std::string kOperation = "all_reduce f32[1000] sum";

/// A job of `world` ranks with the world group, in which rank r has posted `posted[r]` and all but
/// #12 is complete.
void set_up(CoordinatorWorld& w, const std::vector<uint64_t>& posted) {
  w.start(static_cast<int>(posted.size()));
  std::vector<int> members;
  for (size_t r = 0; r < posted.size(); ++r) members.push_back(static_cast<int>(r));
  w.open(members);
  for (const int r : members) {
    const uint64_t count = posted[static_cast<size_t>(r)];
    w.does(r, {GroupId(0), count, std::min<uint64_t>(count, 11), count == 0 ? "" : kOperation,
               milliseconds(5000), ""});
  }
}

Overdue overdue() { return Overdue{GroupId(0), 12, kOperation, milliseconds(5000)}; }

TEST(Overdue, ListsAllRanksThatHaveNotPostedWithWhatTheyDid) {
  CoordinatorWorld w;
  set_up(w, {12, 12, 12, 11, 12, 0, 12, 12});
  w.does(3, {GroupId(0), 11, 11, kOperation, milliseconds(5200), "in data loader"});
  w.say(0, overdue());
  for (int r = 0; r < 8; ++r) {
    ASSERT_EQ(w.received<ReportNow>(r).size(), 1u) << r;
    w.beat(r, w.received<ReportNow>(r)[0].request);
  }
  for (int r = 0; r < 8; ++r) {
    EXPECT_EQ(w.abort_text(r),
              "all_reduce #12 on group 0: timed out after 5.0 s; waiting for 2 of 8 ranks: rank 3 "
              "(last posted #11 all_reduce f32[1000] sum, completed, 5.2 s ago, \"in data "
              "loader\"), rank 5 (no operation yet)");
    EXPECT_EQ(w.received<Abort>(r).at(0).code, ErrorCode::kTimeout);
    EXPECT_EQ(w.received<Abort>(r).at(0).ranks, w.ranks({3, 5}));
  }
}

TEST(Overdue, TakesFreshReportsIntoAccount) {
  CoordinatorWorld w;
  set_up(w, {12, 11});
  w.say(0, overdue());
  w.activities[1] = {{GroupId(0), 12, 11, kOperation, milliseconds(1), ""}};
  w.beat(0, 1);
  w.beat(1, 1);
  EXPECT_EQ(w.abort_text(0),
            "all_reduce #12 on group 0: timed out after 5.0 s; all ranks have posted it; the "
            "network or the aggregator lost it");
  EXPECT_TRUE(w.received<Abort>(0).at(0).ranks.empty());
}

TEST(GiveUp, EndsTheGroupOnAllWithTheReasonOfTheRankThatGaveUp) {
  CoordinatorWorld w;
  set_up(w, {12, 11, 12});
  w.say(1, GiveUp{GroupId(0), ErrorCode::kAborted, "enough"});
  for (int r = 0; r < 3; ++r) {
    EXPECT_EQ(w.abort_text(r), "rank 1 ended group 0: enough");
    EXPECT_EQ(w.received<Abort>(r).at(0).ranks, w.ranks({1}));
  }
  w.say(2, GiveUp{GroupId(0), ErrorCode::kAborted, "too late"});
  EXPECT_EQ(w.received<Abort>(0).size(), 1u);
}

TEST(Overdue, NamesARankThatPostedAndThenFellSilent) {
  CoordinatorWorld w;
  set_up(w, {12, 12});
  w.say(0, overdue());
  w.beat(0, 1);
  w.beating.clear();
  w.pass(200ms);
  EXPECT_EQ(
      w.abort_text(0),
      "all_reduce #12 on group 0: timed out after 5.0 s; all ranks have posted it, but rank 1 "
      "did not answer when asked");
  EXPECT_EQ(w.received<Abort>(0).at(0).ranks, w.ranks({1}));
}

TEST(Overdue, WaitsAtMostTwoHundredMillisecondsForReports) {
  CoordinatorWorld w;
  set_up(w, {12, 11});
  w.say(0, overdue());
  w.beating.clear();
  w.pass(199ms);
  EXPECT_TRUE(w.received<Abort>(0).empty());
  w.pass(1ms);
  EXPECT_EQ(w.abort_text(0),
            "all_reduce #12 on group 0: timed out after 5.0 s; waiting for 1 of 2 ranks: rank 1 "
            "(last posted #11 all_reduce f32[1000] sum, completed, 5.2 s ago)");
}

TEST(Overdue, IsOneAbortHoweverManyRanksComplain) {
  CoordinatorWorld w;
  set_up(w, {12, 12, 11});
  w.say(0, overdue());
  w.say(1, overdue());
  w.pass(1s);
  w.say(1, overdue());
  w.pass(1s);
  EXPECT_EQ(w.received<Abort>(0).size(), 1u);
  EXPECT_EQ(w.received<Abort>(1).size(), 1u);
  EXPECT_EQ(w.received<ReportNow>(0).size(), 1u);
}

TEST(Overdue, DescribesSixteenRanksAndNumbersTheRest) {
  CoordinatorWorld w;
  std::vector<uint64_t> posted(40, 0);
  posted[0] = 12;
  set_up(w, posted);
  w.say(0, overdue());
  w.pass(200ms);
  const std::string text = w.abort_text(0);
  EXPECT_NE(text.find("waiting for 39 of 40 ranks: rank 1 (no operation yet), "), text.npos);
  EXPECT_TRUE(text.ends_with("rank 16 (no operation yet) and ranks 17-39")) << text;
}

TEST(Overdue, OfAGroupThatTheRankIsNotInIsIgnored) {
  CoordinatorWorld w;
  w.start(3);
  w.open({0, 1}, "g");
  w.say(2, Overdue{w.sink.opened[0].group, 1, kOperation, milliseconds(5)});
  w.say(0, Overdue{GroupId(77), 1, kOperation, milliseconds(5)});
  w.pass(1s);
  EXPECT_TRUE(w.received<ReportNow>(0).empty());
  EXPECT_TRUE(w.received<Abort>(0).empty());
}

/// Answers rank r's newest Describe.
void describe(CoordinatorWorld& w, int r, uint64_t sequence, const std::string& text) {
  const Describe question = w.received<Describe>(r).back();
  w.say(r, Description{question.group, question.request, sequence, text});
}

TEST(Mismatch, GroupsRanksByWhatTheyCall) {
  CoordinatorWorld w;
  w.start(4);
  w.open({0, 1, 2, 3});
  w.say(3, Mismatch{GroupId(0), Rank(0), 0xAAAA, Rank(1), 0xBBBB});
  EXPECT_EQ(w.received<Describe>(0).at(0).digest, 0xAAAAu);
  EXPECT_EQ(w.received<Describe>(1).at(0).digest, 0xBBBBu);
  EXPECT_TRUE(w.received<Describe>(2).empty());
  describe(w, 1, 7, "all_reduce f32[2000] sum");
  EXPECT_EQ(w.received<Describe>(2).at(0).sequence, 7u);
  describe(w, 2, 7, "all_reduce f32[1000] sum");
  describe(w, 0, 7, "all_reduce f32[1000] sum");
  describe(w, 3, 7, "all_reduce f32[1000] sum");
  for (int r = 0; r < 4; ++r) {
    EXPECT_EQ(w.abort_text(r),
              "all_reduce #7 on group 0 does not match: ranks 0, 2 and 3 call all_reduce f32[1000] "
              "sum; rank 1 calls all_reduce f32[2000] sum");
    EXPECT_EQ(w.received<Abort>(r).at(0).code, ErrorCode::kMismatch);
    EXPECT_EQ(w.received<Abort>(r).at(0).ranks, w.ranks({0, 1}));
  }
}

TEST(Mismatch, ConcludesWithoutTheRanksThatDoNotAnswerOrHaveNotCalled) {
  CoordinatorWorld w;
  w.start(4);
  w.open({0, 1, 2, 3});
  w.coordinator.on_mismatch(Incarnation(1), Mismatch{GroupId(0), Rank(1), 5, Rank(0), 6}, w.now);
  describe(w, 0, 7, "all_reduce f32[1000] sum");
  describe(w, 1, 8, "barrier");
  describe(w, 2, 0, "");
  w.pass(200ms);
  EXPECT_EQ(w.abort_text(3),
            "all_reduce #7 on group 0 does not match: rank 0 calls all_reduce f32[1000] sum; rank "
            "1 calls barrier as #8; rank 2 has not called it yet");
}

TEST(Mismatch, WithoutAnyAnswerStillNamesTheTwoRanks) {
  CoordinatorWorld w;
  w.start(2);
  w.open({0, 1});
  w.coordinator.on_mismatch(Incarnation(1), Mismatch{GroupId(0), Rank(1), 5, Rank(0), 6}, w.now);
  w.pass(200ms);
  EXPECT_EQ(w.abort_text(0),
            "operations on group 0 do not match: ranks 0 and 1 send different ones (digests "
            "00000006 and 00000005)");
}

TEST(Mismatch, IsTheReasonEvenIfLatenessWasNoticedFirst) {
  CoordinatorWorld w;
  set_up(w, {12, 12});
  w.say(0, overdue());
  w.say(1, Mismatch{GroupId(0), Rank(0), 5, Rank(1), 6});
  describe(w, 0, 12, "all_reduce f32[1] sum");
  describe(w, 1, 12, "all_reduce f32[1] max");
  EXPECT_EQ(w.abort_text(0),
            "all_reduce #12 on group 0 does not match: rank 0 calls all_reduce f32[1] sum; rank 1 "
            "calls all_reduce f32[1] max");
  w.pass(1s);
  EXPECT_EQ(w.received<Abort>(0).size(), 1u);
}

TEST(Mismatch, OfStrangersOrAnotherJobIsIgnored) {
  CoordinatorWorld w;
  w.start(3);
  w.open({0, 1}, "g");
  const GroupId group = w.sink.opened[0].group;
  w.coordinator.on_mismatch(Incarnation(9), Mismatch{group, Rank(0), 5, Rank(1), 6}, w.now);
  w.coordinator.on_mismatch(Incarnation(1), Mismatch{group, Rank(0), 5, Rank(2), 6}, w.now);
  w.coordinator.on_mismatch(Incarnation(1), Mismatch{group, Rank(0), 5, Rank(900), 6}, w.now);
  w.coordinator.on_mismatch(Incarnation(1), Mismatch{group, Rank(1), 5, Rank(1), 6}, w.now);
  w.pass(1s);
  EXPECT_TRUE(w.received<Describe>(0).empty());
  EXPECT_TRUE(w.received<Abort>(0).empty());
}

TEST(Mismatch, AMemberThatDiesDuringAnInquiryIsTheReasonInstead) {
  CoordinatorWorld w;
  w.start(2);
  w.open({0, 1});
  w.say(0, Mismatch{GroupId(0), Rank(0), 5, Rank(1), 6});
  w.hang_up(1);
  w.pass(1s);
  EXPECT_EQ(w.received<Abort>(0).size(), 1u);
  EXPECT_EQ(w.received<Abort>(0)[0].code, ErrorCode::kAborted);
}

TEST(Mismatch, CallsMadeOfMessagesAreNamedByTheProgramsNumbers) {
  CoordinatorWorld w;
  w.start(3);
  w.open({0, 1, 2});
  w.say(0, Mismatch{GroupId(0), w.rank(0), 0xA, w.rank(1), 0xB});
  const auto question = w.received<Describe>(0).at(0);
  const uint64_t number = kCallNumber | 5;
  w.say(0, Description{GroupId(0), question.request, number, "gather f32 to rank 0"});
  EXPECT_EQ(w.received<Describe>(2).at(0).sequence, number);
  w.say(1, Description{GroupId(0), question.request, number, "all_reduce"});
  w.say(2, Description{GroupId(0), question.request, 0, ""});
  EXPECT_EQ(w.abort_text(2),
            "gather #5 on group 0 does not match: rank 0 calls gather f32 to rank 0; rank 1 calls "
            "all_reduce; rank 2 has not called it yet");
}

}  // namespace
}  // namespace sumcast::control
