#include "host/handover.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <thread>

#include "host/test_teams.h"

namespace sumcast::host {
namespace {

const Shape kShape{3, 2, 4096};

Instant soon(Duration span) { return runtime::monotonic_now() + span; }

size_t open_descriptors() {
  size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    (void)entry;
    ++count;
  }
  return count;
}

std::vector<Result<void>> meet_all(const std::vector<Meeting>& meetings, Duration patience,
                                   std::vector<std::optional<Segment>>* segments = nullptr) {
  std::vector<Result<void>> outcomes(meetings.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < meetings.size(); ++i) {
    threads.emplace_back([&, i] {
      auto segment = meet(meetings[i], soon(patience), never_give_up);
      if (!segment) {
        outcomes[i] = fail(segment.error());
      } else if (segments != nullptr) {
        (*segments)[i].emplace(std::move(*segment));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return outcomes;
}

std::vector<Meeting> three() {
  return {test_meeting(0, kShape), test_meeting(1, kShape), test_meeting(2, kShape)};
}

TEST(Handover, all_get_the_same_memory_and_no_descriptor_stays) {
  const size_t before = open_descriptors();
  std::vector<std::optional<Segment>> segments(3);
  for (const auto& outcome : meet_all(three(), 10s, &segments)) {
    ASSERT_TRUE(outcome) << outcome.error().what;
  }
  EXPECT_EQ(open_descriptors(), before);
  *segments[1]->input(2, 1) = std::byte{42};
  EXPECT_EQ(*segments[0]->input(2, 1), std::byte{42});
  segments[2]->abort({ErrorCode::kTimeout, "a reason"});
  segments[0]->abort({ErrorCode::kAborted, "a later reason"});
  EXPECT_EQ(segments[0]->aborted()->what, "a reason");
  EXPECT_EQ(segments[1]->aborted()->code, ErrorCode::kTimeout);
}

TEST(Handover, works_between_processes) {
  const Meeting other = test_meeting(1, Shape{2, 1, 4096});
  const pid_t child = ::fork();
  if (child == 0) {
    die_with_parent();
    auto segment = meet(other, soon(10s), never_give_up);
    if (!segment) ::_exit(1);
    std::memcpy(segment->sum(0), "hello", 6);
    arrive(segment->turn(Stage::kIn, 0), 1);
    ::_exit(0);
  }
  auto segment = meet(test_meeting(0, Shape{2, 1, 4096}), soon(10s), never_give_up);
  ASSERT_TRUE(segment) << segment.error().what;
  ASSERT_EQ(wait_for(segment->turn(Stage::kIn, 0), 1, soon(10s)), Waited::kReached);
  EXPECT_STREQ(reinterpret_cast<const char*>(segment->sum(0)), "hello");
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(Handover, another_key_does_not_even_find_the_leader) {
  auto meetings = three();
  meetings[2].key = test_key(8);
  const auto outcomes = meet_all(meetings, 300ms);
  EXPECT_EQ(outcomes[0].error().code, ErrorCode::kTimeout);
  EXPECT_EQ(outcomes[0].error().what,
            "1 of 2 ranks of this host did not come for the shared memory");
  EXPECT_TRUE(outcomes[1]);
  EXPECT_EQ(outcomes[2].error().code, ErrorCode::kTimeout);
}

TEST(Handover, a_neighbour_of_another_layout_is_told_so) {
  auto meetings = three();
  meetings[1].shape.piece_bytes = 8192;
  const auto outcomes = meet_all(meetings, 2s);
  ASSERT_FALSE(outcomes[1]);
  EXPECT_EQ(outcomes[1].error().code, ErrorCode::kMismatch);
}

TEST(Handover, another_user_is_refused_on_both_sides) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root to become another user";
  const Meeting other = test_meeting(1, Shape{2, 1, 4096});
  const pid_t child = ::fork();
  if (child == 0) {
    die_with_parent();
    if (::setuid(65534) != 0) ::_exit(2);
    const auto segment = meet(other, soon(5s), never_give_up);
    ::_exit(!segment && segment.error().code == ErrorCode::kDenied ? 0 : 1);
  }
  const auto segment = meet(test_meeting(0, Shape{2, 1, 4096}), soon(500ms), never_give_up);
  EXPECT_FALSE(segment);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(Handover, a_leader_that_dies_is_unavailable_and_not_another_user) {
  const Meeting leading = test_meeting(0, kShape);
  const pid_t leader = ::fork();
  if (leader == 0) {
    die_with_parent();
    (void)meet(leading, soon(60s), never_give_up);
    ::_exit(0);
  }
  // It has served one, so it listens; before it can serve the other it is stopped.
  ASSERT_TRUE(meet(test_meeting(2, kShape), soon(20s), never_give_up));
  ASSERT_EQ(::kill(leader, SIGSTOP), 0);
  const auto kill_it = [&]() -> std::optional<Error> {
    ::kill(leader, SIGKILL);  // Asked while it waits for the answer.
    return std::nullopt;
  };
  const auto segment = meet(test_meeting(1, kShape), soon(20s), kill_it);
  ::kill(leader, SIGKILL);
  ::waitpid(leader, nullptr, 0);
  ASSERT_FALSE(segment);
  EXPECT_EQ(segment.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(segment.error().what.find("which leads the ranks of this host, closed the line"),
            std::string::npos)
      << segment.error().what;
}

TEST(Handover, ends_early_when_it_is_told_to_give_up) {
  const auto give_up = []() -> std::optional<Error> {
    return Error{ErrorCode::kAborted, "rank 1 died"};
  };
  for (const uint32_t me : {0u, 1u}) {
    const auto segment = meet(test_meeting(me, kShape), Instant::never(), give_up);
    ASSERT_FALSE(segment);
    EXPECT_EQ(segment.error().what, "rank 1 died");
  }
}

}  // namespace
}  // namespace sumcast::host
