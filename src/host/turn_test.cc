#include "host/turn.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>
#include <vector>

#include "runtime/clock.h"

namespace sumcast::host {
namespace {

Instant soon(Duration span) { return runtime::monotonic_now() + span; }

TEST(Turn, a_wait_ends_with_the_last_arrival) {
  Turn turn;
  std::vector<std::thread> waiters;
  std::atomic<int> reached{0};
  for (int i = 0; i < 3; ++i) {
    waiters.emplace_back([&] {
      EXPECT_EQ(wait_for(turn, 3, soon(20s)), Waited::kReached);
      ++reached;
    });
  }
  arrive(turn, 3);
  arrive(turn, 3);
  std::this_thread::sleep_for(20ms);
  EXPECT_EQ(reached, 0);
  arrive(turn, 3);
  for (std::thread& waiter : waiters) waiter.join();
  EXPECT_EQ(reached, 3);
}

TEST(Turn, a_deadline_ends_a_wait) {
  Turn turn;
  const Instant deadline = soon(30ms);
  EXPECT_EQ(wait_for(turn, 1, deadline), Waited::kTimeout);
  EXPECT_GE(runtime::monotonic_now(), deadline);
}

TEST(Turn, who_looks_sees_arrivals_and_aborts_and_goes_to_sleep_in_time) {
  for (const bool yields : {false, true}) {
    Turn turn;
    const Looking looking{20s, yields};
    std::thread waiter([&] { EXPECT_EQ(wait_for(turn, 1, soon(30s), looking), Waited::kReached); });
    arrive(turn, 1);
    waiter.join();
    EXPECT_EQ(turn.sleepers, 0u);
    EXPECT_EQ(wait_for(turn, 2, soon(5ms), {1ms, yields}), Waited::kTimeout);
    abort(turn);
    EXPECT_EQ(wait_for(turn, 2, soon(30s), looking), Waited::kAborted);
  }
}

TEST(Turn, an_abort_wakes_who_sleeps_and_who_comes_later) {
  Turn turn;
  std::thread sleeper([&] { EXPECT_EQ(wait_for(turn, 1, Instant::never()), Waited::kAborted); });
  std::this_thread::sleep_for(20ms);
  abort(turn);
  sleeper.join();
  EXPECT_EQ(wait_for(turn, 1, Instant::never(), {1ms, false}), Waited::kAborted);
}

TEST(Turn, what_was_reached_before_an_abort_stays_so) {
  Turn turn;
  arrive(turn, 1);
  abort(turn);
  EXPECT_EQ(wait_for(turn, 1, Instant::never()), Waited::kReached);
  EXPECT_EQ(wait_for(turn, 2, Instant::never()), Waited::kAborted);
}

TEST(Turn, counts_go_on_past_the_end_of_the_circle) {
  Turn turn;
  turn.word = 0xFFFFFFFC;  // 2^31 - 2 arrivals.
  const uint32_t target = (uint32_t{1} << 31) + 1;
  for (int i = 0; i < 2; ++i) arrive(turn, target);
  EXPECT_EQ(wait_for(turn, target, soon(5ms)), Waited::kTimeout);
  arrive(turn, target);
  EXPECT_EQ(wait_for(turn, target, soon(5ms)), Waited::kReached);
}

TEST(Turn, a_sleeper_that_is_killed_holds_up_nobody) {
  auto* turn =
      new (::mmap(nullptr, sizeof(Turn), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))
          Turn;
  const pid_t child = ::fork();
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)wait_for(*turn, 2, Instant::never());
    ::_exit(0);
  }
  while (turn->sleepers.load() == 0) std::this_thread::sleep_for(1ms);
  ::kill(child, SIGKILL);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  std::thread waiter([&] { EXPECT_EQ(wait_for(*turn, 2, soon(20s)), Waited::kReached); });
  arrive(*turn, 2);
  arrive(*turn, 2);
  waiter.join();
  ::munmap(turn, sizeof(Turn));
}

TEST(Turn, LookingIsNeverLongerThanAllowedAndYieldsWhereCoresAreShared) {
  EXPECT_EQ(looking_for(4, 2, 0us).span, 0us);
  EXPECT_EQ(looking_for(4, 2, 5us).span, 5us);
  EXPECT_GT(looking_for(4, 2, 1s).span, 0us);
  EXPECT_LT(looking_for(4, 2, 1s).span, 1ms);
  EXPECT_TRUE(looking_for(4, 2, 1s).yields);
  EXPECT_FALSE(looking_for(2, 2, 1s).yields);
}

}  // namespace
}  // namespace sumcast::host
