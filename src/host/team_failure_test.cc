#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "host/test_teams.h"

namespace sumcast::host {
namespace {

using wire::OperationDescriptor;
using wire::OperationKind;

OperationDescriptor all_reduce_of(uint64_t count, Reduction reduction = Reduction::kSum) {
  OperationDescriptor what;
  what.kind = OperationKind::kAllReduce;
  what.type = ElementType::kF32;
  what.reduction = reduction;
  what.count = count;
  return what;
}

/// Ends the team as a coordinator would.
void answer(TestTeams& teams, const std::string& text) {
  for (uint32_t place = 0; place < teams.size(); ++place) {
    teams.team(place).abort({ErrorCode::kMismatch, text});
  }
}

TEST(TeamFailure, different_operations_end_alike_and_leave_tensors_as_they_were) {
  for (const uint64_t other : {11u, 200'000u}) {
    TestTeams teams({0, 0, 0});
    std::vector<std::vector<float>> tensors(3, std::vector<float>(200'000, 1));
    std::thread coordinator([&] {
      for (const TestObserver& one : teams.observers) {
        while (one.mismatches == 0) std::this_thread::sleep_for(1ms);
      }
      answer(teams, "rank 2 calls something else");
    });
    const auto outcomes = teams.run_all([&](uint32_t place) {
      return teams.run(place, all_reduce_of(place == 2 ? other : 10), tensors[place].data(),
                       tensors[place].data());
    });
    coordinator.join();
    for (uint32_t place = 0; place < 3; ++place) {
      ASSERT_FALSE(outcomes[place]);
      EXPECT_EQ(outcomes[place].error().what, "rank 2 calls something else");
      EXPECT_EQ(teams.observers[place].seat_a, 0u);
      EXPECT_EQ(teams.observers[place].seat_b, 2u);
      EXPECT_EQ(tensors[place], std::vector<float>(200'000, 1));
      // For good.
      EXPECT_FALSE(
          teams.run(place, all_reduce_of(10), tensors[place].data(), tensors[place].data()));
    }
  }
}

TEST(TeamFailure, a_mismatch_ends_without_a_coordinator_too) {
  TestTeams teams({0, 0});
  std::array<float, 16> tensor{};
  const auto outcomes = teams.run_all([&](uint32_t place) {
    return teams.run(place, all_reduce_of(16, place == 0 ? Reduction::kSum : Reduction::kMax),
                     tensor.data(), std::array<float, 16>{}.data(), 100ms);
  });
  for (const auto& outcome : outcomes) {
    ASSERT_FALSE(outcome);
    EXPECT_EQ(outcome.error().code, ErrorCode::kMismatch);
  }
  EXPECT_EQ(outcomes[0].error().what, outcomes[1].error().what);
}

TEST(TeamFailure, a_rank_that_never_comes_is_reported_and_the_wait_ends) {
  TestTeams teams({0, 0, 0});
  std::array<float, 16> tensor{};
  std::array<Result<void>, 2> outcomes;
  std::vector<std::thread> threads;
  for (uint32_t place = 0; place < 2; ++place) {
    threads.emplace_back([&, place] {
      outcomes[place] =
          teams.run(place, all_reduce_of(16), tensor.data(), std::array<float, 16>{}.data(), 50ms);
    });
  }
  while (teams.observers[0].overdue == 0) std::this_thread::sleep_for(1ms);
  teams.team(0).abort({ErrorCode::kTimeout, "waiting for rank 2"});
  for (std::thread& thread : threads) thread.join();
  for (const auto& outcome : outcomes) EXPECT_EQ(outcome.error().what, "waiting for rank 2");
  const auto late = teams.run(2, all_reduce_of(16), tensor.data(), tensor.data());
  EXPECT_EQ(late.error().what, "waiting for rank 2");
}

TEST(TeamFailure, what_one_rank_completed_all_complete) {
  for (const uint64_t count : {10u, 100'000u}) {
    for (int round = 0; round < 30; ++round) {
      TestTeams teams({0, 0, 0});
      std::vector<std::vector<float>> tensors(3, std::vector<float>(count, 1));
      expect_success(teams.run_all([&](uint32_t place) {
        auto done =
            teams.run(place, all_reduce_of(count), tensors[place].data(), tensors[place].data());
        teams.team(place).abort({ErrorCode::kAborted, "enough"});
        return done;
      }));
    }
  }
}

TEST(TeamFailure, a_cut_between_hosts_ends_all_ranks_of_each_host) {
  TestTeams teams({0, 0, 1, 1});
  teams.board.cut({ErrorCode::kAborted, "rank 2 died"});
  std::vector<std::vector<float>> tensors(4, std::vector<float>(100'000, 1));
  const auto outcomes = teams.run_all([&](uint32_t place) {
    return teams.run(place, all_reduce_of(100'000), tensors[place].data(), tensors[place].data());
  });
  for (const auto& outcome : outcomes) EXPECT_EQ(outcome.error().what, "rank 2 died");
  for (const auto& tensor : tensors) EXPECT_EQ(tensor, std::vector<float>(100'000, 1));
}

/// One rank of two in a process of its own that stops for ever in the middle of something.
TEST(TeamFailure, a_killed_rank_leaves_no_lock_behind) {
  const Shape shape = Team::shape_for(2, 1);
  const Meeting other = test_meeting(1, shape, 55);
  const pid_t child = ::fork();
  if (child == 0) {
    die_with_parent();
    auto segment = meet(other, runtime::monotonic_now() + 10s, never_give_up);
    if (!segment) ::_exit(1);
    TestObserver observer;
    Team team(std::move(*segment), Layout({0, 0}, 1), nullptr, observer, 100us);
    std::vector<float> tensor(1'000'000, 1);
    for (uint32_t round = 1;; ++round) {
      auto what = all_reduce_of(tensor.size());
      what.sequence = round;
      if (!team.run({what, tensor.data(), tensor.data(), Instant::never()})) ::_exit(1);
    }
  }
  auto segment = meet(test_meeting(0, shape, 55), runtime::monotonic_now() + 10s, never_give_up);
  ASSERT_TRUE(segment) << segment.error().what;
  TestObserver observer;
  Team team(std::move(*segment), Layout({0, 0}, 0), nullptr, observer, 100us);
  std::vector<float> tensor(1'000'000, 1);
  std::atomic<bool> dead{false};
  std::thread reaper([&] {
    std::this_thread::sleep_for(50ms);
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    dead = true;
    team.abort({ErrorCode::kAborted, "rank 1 died"});
  });
  Result<void> outcome;
  for (uint32_t round = 1; outcome; ++round) {
    auto what = all_reduce_of(tensor.size());
    what.sequence = round;
    outcome = team.run({what, tensor.data(), tensor.data(), Instant::never()});
  }
  EXPECT_TRUE(dead);
  EXPECT_EQ(outcome.error().what, "rank 1 died");
  reaper.join();
  // A fence: nothing writes to the tensor any more.
  std::fill(tensor.begin(), tensor.end(), 5);
  std::this_thread::sleep_for(20ms);
  EXPECT_EQ(tensor, std::vector<float>(1'000'000, 5));
}

size_t resident_pages() {
  std::ifstream file("/proc/self/statm");
  size_t total = 0, resident = 0;
  file >> total >> resident;
  return resident;
}

size_t mappings() {
  std::ifstream file("/proc/self/maps");
  return static_cast<size_t>(
      std::count(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>(), '\n'));
}

TEST(TeamFailure, a_thousand_teams_leave_nothing_behind) {
  const auto one = [] {
    TestTeams teams({0, 0});
    std::array<std::array<float, 1000>, 2> tensors{};
    expect_success(teams.run_all([&](uint32_t place) {
      return teams.run(place, all_reduce_of(1000), tensors[place].data(), tensors[place].data());
    }));
  };
  for (int round = 0; round < 50; ++round) one();
  const size_t pages = resident_pages(), maps = mappings();
  for (int round = 0; round < 1000; ++round) one();
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  EXPECT_LT(resident_pages(), pages + 256);  // A sanitizer keeps what was freed for a while.
#else
  (void)pages;
#endif
  EXPECT_LT(mappings(), maps + 16);
}

}  // namespace
}  // namespace sumcast::host
