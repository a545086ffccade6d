#include "ps/tracker.h"

#include <gtest/gtest.h>

namespace sumcast::ps {
namespace {

TEST(Tracker, ARequestIsDoneWithItsLastResponse) {
  Tracker tracker;
  const int first = tracker.open(2, 2), second = tracker.open(1, 2);
  EXPECT_EQ(first, 0);
  EXPECT_EQ(second, 1);
  EXPECT_FALSE(tracker.add(first, 1));
  EXPECT_FALSE(tracker.is_done(first));
  EXPECT_EQ(tracker.progress_text(first), "1 of 2");
  EXPECT_TRUE(tracker.add(first, 1));
  EXPECT_TRUE(tracker.is_done(first));
  EXPECT_EQ(tracker.responses(first), 2);
  EXPECT_FALSE(tracker.is_done(second));
}

TEST(Tracker, AResponseTooManyChangesNothing) {
  Tracker tracker;
  const int request = tracker.open(1, 2);
  EXPECT_TRUE(tracker.add(request, 1));
  EXPECT_FALSE(tracker.add(request, 1));
  EXPECT_EQ(tracker.responses(request), 1);
}

TEST(Tracker, NumbersThatWereNeverGivenCountAsDone) {
  Tracker tracker;
  EXPECT_TRUE(tracker.is_done(0));
  tracker.open(1, 2);
  EXPECT_TRUE(tracker.is_done(5));
  EXPECT_FALSE(tracker.add(5, 1));
}

TEST(Tracker, NumbersMayGoOnWhereAnotherEnded) {
  Tracker before, tracker;
  const int old = before.open(1, 2);
  tracker.begin_at(before.next());
  EXPECT_FALSE(tracker.add(old, 1));
  const int first = tracker.open(1, 2);
  EXPECT_EQ(first, old + 1);
  EXPECT_FALSE(tracker.is_done(first));
  EXPECT_TRUE(tracker.is_done(old));
  EXPECT_TRUE(tracker.add(first, 1));
}

TEST(Tracker, OldRequestsLeaveAndMemoryStaysBounded) {
  Tracker tracker;
  const int first = tracker.open(1, 2);
  tracker.add(first, 1);
  int last = first;
  for (int i = 0; i < 20000; ++i) tracker.add(last = tracker.open(1, 2), 1);
  EXPECT_TRUE(tracker.is_done(first));
  EXPECT_EQ(tracker.responses(first), 0);  // It is forgotten.
  EXPECT_EQ(tracker.responses(last), 1);
}

TEST(Tracker, AnOpenRequestKeepsItsNumberHoweverManyFollow) {
  Tracker tracker;
  const int first = tracker.open(1, 2);
  for (int i = 0; i < 20000; ++i) tracker.add(tracker.open(1, 2), 1);
  EXPECT_FALSE(tracker.is_done(first));
  EXPECT_TRUE(tracker.add(first, 1));
  EXPECT_TRUE(tracker.is_done(first));
}

TEST(Tracker, FailuresHitThoseWhoseGroupIsConcernedAndAreNotDone) {
  Tracker tracker;
  const int done = tracker.open(1, 2), open = tracker.open(2, 2), other = tracker.open(1, 4);
  tracker.add(done, 1);
  const int one = tracker.open(2, 2, {8}), both = tracker.open(2, 2, {8, 10});
  const auto holds = [](int group) { return group == 2; };
  tracker.fail_if_asked(10, holds, "server 1 has died");
  EXPECT_EQ(tracker.failure(one), nullptr) << "it was not asked";
  EXPECT_NE(tracker.failure(both), nullptr);
  EXPECT_EQ(tracker.failure(done), nullptr);
  ASSERT_NE(tracker.failure(open), nullptr);
  EXPECT_EQ(*tracker.failure(open), "server 1 has died");
  EXPECT_EQ(tracker.failure(other), nullptr);
  tracker.fail(open, "another reason");
  EXPECT_EQ(*tracker.failure(open), "server 1 has died");
}

}  // namespace
}  // namespace sumcast::ps
