#include "net/poll.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <thread>

namespace sumcast::net {
namespace {

struct Pair {
  Pair() {
    int fds[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
    a = FileDescriptor(fds[0]);
    b = FileDescriptor(fds[1]);
  }
  FileDescriptor a, b;
};

TEST(Poller, ReportsTheTokenOfWhatIsReady) {
  auto poller = Poller::create();
  ASSERT_TRUE(poller);
  Pair quiet, busy;
  ASSERT_TRUE(poller->add(quiet.a.get(), 7));
  ASSERT_TRUE(poller->add(busy.a.get(), 0xFFFFFFFFFFFFFFFFu));
  std::array<Event, 4> events;
  EXPECT_EQ(poller->wait(events, 0ns), 0u);
  ASSERT_EQ(::write(busy.b.get(), "x", 1), 1);
  ASSERT_EQ(poller->wait(events, 10s), 1u);
  EXPECT_EQ(events[0].token, 0xFFFFFFFFFFFFFFFFu);
  EXPECT_TRUE(events[0].readable);
  EXPECT_FALSE(events[0].writable);
  EXPECT_FALSE(events[0].failed);
}

TEST(Poller, FollowsModifyAndRemove) {
  auto poller = Poller::create();
  ASSERT_TRUE(poller);
  Pair pair;
  std::array<Event, 4> events;
  ASSERT_TRUE(poller->add(pair.a.get(), 1));
  ASSERT_TRUE(poller->modify(pair.a.get(), 2, Interest::kReadWrite));
  ASSERT_EQ(poller->wait(events, 10s), 1u);
  EXPECT_EQ(events[0].token, 2u);
  EXPECT_TRUE(events[0].writable);
  ASSERT_TRUE(poller->remove(pair.a.get()));
  EXPECT_EQ(poller->wait(events, 0ns), 0u);
  EXPECT_FALSE(poller->remove(pair.a.get())) << "it is no longer watched";
}

TEST(Poller, ReportsAHangUpAsReadable) {
  auto poller = Poller::create();
  ASSERT_TRUE(poller);
  Pair pair;
  ASSERT_TRUE(poller->add(pair.a.get(), 3));
  pair.b.close();
  std::array<Event, 4> events;
  ASSERT_EQ(poller->wait(events, 10s), 1u);
  EXPECT_TRUE(events[0].readable);
  EXPECT_TRUE(events[0].failed);
}

TEST(Poller, WaitsNoLessThanTheTimeout) {
  auto poller = Poller::create();
  ASSERT_TRUE(poller);
  std::array<Event, 1> events;
  const Instant begin = monotonic_now();
  EXPECT_EQ(poller->wait(events, 300us), 0u);
  EXPECT_GE(monotonic_now() - begin, 300us);
  EXPECT_EQ(poller->wait(events, -5ns), 0u);
}

TEST(WakeUp, EndsAWaitFromAnotherThread) {
  auto poller = Poller::create();
  auto wake = WakeUp::create();
  ASSERT_TRUE(poller && wake);
  ASSERT_TRUE(poller->add(wake->fd(), 9));
  EXPECT_FALSE(wake->drain());
  std::thread other([&] {
    wake->signal();
    wake->signal();
  });
  std::array<Event, 2> events;
  EXPECT_EQ(poller->wait(events, Duration::max()), 1u);
  other.join();
  EXPECT_TRUE(wake->drain());
  EXPECT_FALSE(wake->drain()) << "two signals count as one";
  EXPECT_EQ(poller->wait(events, 0ns), 0u);
}

TEST(SpinBudget, ShrinksWithLongWaitsAndGrowsWithShortOnes) {
  SpinBudget budget(80us);
  const Instant now{1};
  EXPECT_EQ(budget.span(now), 80us);
  budget.on_wait(121us);
  EXPECT_EQ(budget.span(now), 40us);
  for (int i = 0; i < 10; ++i) budget.on_wait(1ms);
  EXPECT_EQ(budget.span(now), 10us) << "an eighth stays, or a change would go unnoticed for long";
  budget.on_wait(120us);
  EXPECT_EQ(budget.span(now), 20us) << "it slept, but had it looked longer, it would have seen it";
  for (int i = 0; i < 10; ++i) budget.on_wait(5us);
  EXPECT_EQ(budget.span(now), 80us);
}

TEST(SpinBudget, RestsLongerEachTimeOthersCompute) {
  SpinBudget budget(80us);
  Instant now{1};
  budget.on_crowd(now);
  EXPECT_EQ(budget.span(now), 0us);
  EXPECT_EQ(budget.span(now + 5ms), 80us);
  now = now + 5ms;
  budget.on_crowd(now);
  EXPECT_EQ(budget.span(now + 9ms), 0us);
  EXPECT_EQ(budget.span(now + 10ms), 80us);
  for (int i = 0; i < 30; ++i) budget.on_crowd(now);
  EXPECT_EQ(budget.span(now + 1s), 80us) << "at most a second";
}

TEST(SpinBudget, OfNothingNeverSpins) {
  SpinBudget budget;
  budget.on_wait(0us);
  EXPECT_EQ(budget.span(Instant{1}), 0us);
  EXPECT_FALSE(budget.is_on());
}

TEST(Poller, ThatSpinsKeepsItsTimeoutAndSeesWhatArrives) {
  auto poller = Poller::create();
  ASSERT_TRUE(poller);
  poller->set_spin(200us);
  Pair pair;
  ASSERT_TRUE(poller->add(pair.a.get(), 5));
  std::array<Event, 4> events;
  const Instant begin = monotonic_now();
  EXPECT_EQ(poller->wait(events, 2ms), 0u);
  EXPECT_GE(monotonic_now() - begin, 2ms);
  for (int i = 0; i < 50; ++i) {
    std::thread writer([&] { EXPECT_EQ(::write(pair.b.get(), "x", 1), 1); });
    EXPECT_EQ(poller->wait(events, Duration::max()), 1u);
    writer.join();
    char byte;
    EXPECT_EQ(::read(pair.a.get(), &byte, 1), 1);
  }
}

}  // namespace
}  // namespace sumcast::net
