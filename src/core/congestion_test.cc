#include "core/congestion.h"

#include <gtest/gtest.h>

#include "base/prng.h"

namespace sumcast::core {
namespace {

/// A path that delivers one result each `gap`, behind a queue that holds what is in flight.
struct Stream {
  CongestionWindow& window;
  Duration gap, base;
  Instant now{1'000'000};
  bool is_limited = true;
  Duration least = Duration::max();

  void deliver(uint32_t results) {
    for (uint32_t i = 0; i < results; ++i) {
      now = now + gap;
      if (is_limited) window.on_limited();
      least = std::min(least, std::max<Duration>(base, window.size() * gap));
      window.on_result(now, least);
    }
  }
};

constexpr Duration kGap300Mbit = 40us;  // 1,500 bytes.

TEST(CongestionWindow, DoublesUntilTheBuffersAreFull) {
  CongestionWindow window({.limit = 1000, .floor = 16, .start = 64});
  EXPECT_EQ(window.size(), 64u);
  Stream stream{window, 1us, 100us};
  stream.deliver(64);
  EXPECT_EQ(window.size(), 128u);
  stream.deliver(5000);
  EXPECT_EQ(window.size(), 1000u);
}

TEST(CongestionWindow, BelowTheStartTheBuffersRule) {
  CongestionWindow window({.limit = 7, .floor = 16, .start = 64});
  EXPECT_EQ(window.size(), 7u);
  Stream stream{window, 1us, 100us};
  stream.deliver(5000);
  window.on_results_lost(500);
  EXPECT_EQ(window.size(), 7u);
}

TEST(CongestionWindow, HoldsNoLongerQueueThanItsTarget) {
  CongestionWindow window({.limit = 5000, .floor = 16, .start = 64});
  Stream stream{window, kGap300Mbit, 200us};
  stream.deliver(20'000);
  const Duration queue = window.size() * kGap300Mbit;
  // The least round trip is that of the first window, which queued behind itself.
  EXPECT_LE(queue, CongestionWindow::kQueueTarget + 64 * kGap300Mbit + kGap300Mbit);
  EXPECT_GE(queue, CongestionWindow::kQueueTarget);
}

TEST(CongestionWindow, ALaterHigherRateRaisesIt) {
  CongestionWindow window({.limit = 5000, .floor = 16, .start = 64});
  Stream slow{window, 1ms, 1ms};  // Small operations, one after the other.
  slow.deliver(200);
  EXPECT_LT(window.size(), 100u);
  Stream fast{window, 2us, 100us, slow.now};
  fast.deliver(50'000);
  EXPECT_GT(window.size(), 3000u);
}

TEST(CongestionWindow, WhatTheProgramPacesSaysNothingAboutThePath) {
  CongestionWindow window({.limit = 5000, .floor = 16, .start = 64});
  Stream idle{window, 200ms, 300us, Instant{1'000'000}, false};  // A barrier now and then.
  idle.deliver(50);
  EXPECT_EQ(window.size(), 64u);
}

TEST(CongestionWindow, APauseAfterALimitedBurstIsNoSlowPath) {
  CongestionWindow window({.limit = 165, .floor = 16, .start = 64});
  Stream burst{window, 20us, 300us};
  burst.deliver(300);  // 6 ms: too short for a rate.
  burst.now = burst.now + 1s;
  burst.deliver(1);
  EXPECT_EQ(window.size(), 165u);
}

TEST(CongestionWindow, OnePercentAtRandomEachWayCostsNothing) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    CongestionWindow window({.limit = 165, .floor = 16, .start = 64});
    Stream stream{window, kGap300Mbit, 200us};
    Prng prng(seed);
    for (int i = 0; i < 100'000; ++i) {
      stream.deliver(1);
      if (prng.below(100) == 0) window.on_contributions_lost(1);
      if (prng.below(100) == 0) window.on_results_lost(1);
    }
    EXPECT_EQ(window.size(), 165u) << "seed " << seed;
  }
}

TEST(CongestionWindow, ManyLossesShrinkItToTheFloorAndNoFurther) {
  CongestionWindow window({.limit = 1000, .floor = 16, .start = 1000});
  Stream stream{window, 1us, 100us};
  stream.deliver(100);
  window.on_contributions_lost(CongestionWindow::kLossAlarm + 1);
  EXPECT_EQ(window.size(), 700u) << "at once, without waiting for the end of an epoch";
  window.on_contributions_lost(CongestionWindow::kLossAlarm + 1);
  EXPECT_EQ(window.size(), 700u) << "these were sent before it shrank";
  for (int i = 0; i < 40; ++i) window.on_results_lost(CongestionWindow::kLossAlarm + 1);
  EXPECT_EQ(window.size(), 16u);
}

TEST(CongestionWindow, GrowsSlowlyAfterALoss) {
  CongestionWindow window({.limit = 1000, .floor = 16, .start = 1000});
  Stream stream{window, 1us, 100us};
  window.on_results_lost(CongestionWindow::kLossAlarm + 1);
  ASSERT_EQ(window.size(), 700u);
  stream.deliver(CongestionWindow::kEpoch);
  EXPECT_EQ(window.size(), 700u) << "late losses of the larger window may still come";
  stream.deliver(701);
  EXPECT_EQ(window.size(), 704u);
}

/// A queue of `room` datagrams that drops what exceeds it: the window must settle near it.
TEST(CongestionWindow, SettlesNearTheRoomOfAShallowQueue) {
  constexpr uint32_t kRoom = 90;
  CongestionWindow window({.limit = 165, .floor = 16, .start = 64});
  Stream stream{window, kGap300Mbit, 200us};
  uint64_t delivered = 0, dropped = 0;
  for (int round = 0; round < 4000; ++round) {
    const uint32_t sent = window.size();
    const uint32_t kept = std::min(sent, kRoom);
    stream.deliver(kept);
    window.on_contributions_lost(sent - kept);
    if (round < 1000) continue;
    delivered += kept;
    dropped += sent - kept;
  }
  EXPECT_LT(dropped * 100, delivered * 4) << "not many more than are tolerated";
  EXPECT_GT(delivered, 3000ull * kRoom * 7 / 10) << "and the link is used";
}

}  // namespace
}  // namespace sumcast::core
