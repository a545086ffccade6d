#include "ps/resend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/prng.h"

namespace sumcast::ps {
namespace {

using testing::ElementsAre;

std::vector<uint64_t> due(SendTable<int>& table, Instant now) {
  std::vector<uint64_t> sequences;
  table.due(now, [&](uint64_t sequence, int) { sequences.push_back(sequence); });
  return sequences;
}

TEST(Resend, WhatIsNotAcknowledgedComesAgain) {
  core::RttEstimator::Config config;
  config.rto_initial = 100ms;
  SendTable<int> table(config);
  const Instant start{1'000'000'000};
  for (int i = 0; i < 3; ++i) table.push(i);
  EXPECT_THAT(due(table, start), ElementsAre(1, 2, 3));
  EXPECT_TRUE(due(table, start + Duration(99ms)).empty());
  EXPECT_EQ(table.next_due(), start + Duration(100ms));
  table.on_ack(2, start + Duration(50ms));
  EXPECT_THAT(due(table, start + Duration(1s)), ElementsAre(2, 3));
  table.on_ack(4, start + Duration(1100ms));
  EXPECT_TRUE(table.empty());
  EXPECT_EQ(table.next_due(), Instant::never());
  EXPECT_EQ(table.repeats(), 2u);
}

TEST(Resend, TwoEqualAcknowledgementsRepeatTheFrameAtOnce) {
  SendTable<int> table;
  const Instant start{1'000'000'000};
  for (int i = 0; i < 4; ++i) table.push(i);
  due(table, start);
  table.on_ack(2, start + Duration(1ms));
  table.on_ack(2, start + Duration(2ms));
  EXPECT_TRUE(due(table, start + Duration(2ms)).empty());
  table.on_ack(2, start + Duration(3ms));
  EXPECT_THAT(due(table, start + Duration(3ms)), ElementsAre(2));
}

TEST(Resend, NoMoreThanAWindowIsUnderWay) {
  SendTable<int> table;
  const Instant start{1'000'000'000};
  for (size_t i = 0; i < 3 * kResendWindow; ++i) table.push(0);
  EXPECT_EQ(due(table, start).size(), kResendWindow);
  table.on_ack(11, start);
  EXPECT_EQ(due(table, start).size(), 10u);
}

TEST(Resend, TheReceiverHandsOnInOrderAndOnce) {
  ReceiveTable<std::string> table;
  std::string seen;
  const auto take = [&](std::string frame) { seen += frame; };
  EXPECT_TRUE(table.on_frame(2, "b", take));
  EXPECT_EQ(seen, "");
  EXPECT_TRUE(table.on_frame(1, "a", take));
  EXPECT_EQ(seen, "ab");
  EXPECT_FALSE(table.on_frame(1, "a", take));
  EXPECT_FALSE(table.on_frame(3 + kResendWindow, "z", take));
  EXPECT_TRUE(table.on_frame(3, "c", take));
  EXPECT_EQ(seen, "abc");
  EXPECT_EQ(table.next(), 4u);
}

/// A link that loses frames and acknowledgements, for many seeds: all arrive, once, in order.
TEST(Resend, EverythingArrivesOnceUnderLoss) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    Prng prng(seed);
    SendTable<int> sender;
    ReceiveTable<int> receiver;
    Instant now{1'000'000'000};
    constexpr int kFrames = 2000;
    int next = 0;
    for (int i = 0; i < kFrames; ++i) sender.push(i);
    for (int step = 0; step < 20000 && !sender.empty(); ++step) {
      bool came = false;
      sender.due(now, [&](uint64_t sequence, int frame) {
        if (prng.chance(0.25)) return;
        came = true;
        receiver.on_frame(sequence, frame, [&](int ready) { EXPECT_EQ(ready, next++); });
      });
      now = now + Duration(1ms);
      if (came && !prng.chance(0.25)) sender.on_ack(receiver.next(), now);
    }
    EXPECT_EQ(next, kFrames) << "seed " << seed;
    EXPECT_TRUE(sender.empty()) << "seed " << seed;
  }
}

}  // namespace
}  // namespace sumcast::ps
