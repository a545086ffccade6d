// Messages between ranks in threads of one process, over loopback.
#include "mesh/messenger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "mesh/test_messengers.h"

namespace sumcast::mesh {
namespace {

using ::testing::HasSubstr;

TEST_F(MessengerTest, AnyPairOfRanksMayMeetInEitherOrderAndAtAnySize) {
  for (const size_t count : {0ul, 1ul, 1000ul, 5000ul, 300000ul}) {
    for (const auto& [from, dest] : {std::pair(0, 2), std::pair(2, 0), std::pair(1, 2)}) {
      for (const bool receive_first : {false, true}) {
        const auto out = numbers(count, static_cast<uint32_t>(count) + from);
        std::vector<uint32_t> in(count);
        const Receiving want = into(Rank(static_cast<uint16_t>(from)), in);
        const Sending have = to(static_cast<uint16_t>(dest), out);
        std::shared_ptr<Exchange> sent, got;
        if (receive_first) got = post(dest, {}, {want}, soon());
        sent = post(from, {have}, {}, soon());
        if (!receive_first) got = post(dest, {}, {want}, soon());
        ASSERT_TRUE(at(dest).wait(*got, soon()));
        ASSERT_TRUE(at(from).wait(*sent, soon()));
        ASSERT_EQ(in, out);
      }
    }
  }
}

TEST_F(MessengerTest, TagsAreTakenInAnyOrderAndOneTagInTheOrderOfSending) {
  const auto a = numbers(3, 10), b = numbers(3, 20), c = numbers(100000, 30);
  ASSERT_TRUE(send(0, to(1, a, 1)));
  ASSERT_TRUE(send(0, to(1, b, 2)));
  const auto large = post(0, {to(1, c, 1)}, {}, soon());
  std::vector<uint32_t> second(3), first(3), third(100000);
  ASSERT_TRUE(receive(1, into(Rank(0), second, 2)));
  ASSERT_TRUE(receive(1, into(Rank(0), first, 1)));
  ASSERT_TRUE(receive(1, into(Rank(0), third, 1)));
  EXPECT_EQ(first, a);
  EXPECT_EQ(second, b);
  EXPECT_EQ(third, c);
  EXPECT_TRUE(at(0).wait(*large, soon()));
}

TEST_F(MessengerTest, MessagesOfAllSizesComeThroughSmallWindows) {
  const auto small = numbers(10, 1), large = numbers(3'000'000, 2);
  const auto exchange = [&](uint16_t from) {
    std::vector<uint32_t> first(small.size()), second(large.size());
    const auto got = post(1, {}, {into(Rank(from), first, 1), into(Rank(from), second, 2)}, soon());
    const auto sent = post(from, {to(1, small, 1), to(1, large, 2)}, {}, soon());
    ASSERT_TRUE(at(1).wait(*got, soon()));
    ASSERT_TRUE(at(from).wait(*sent, soon()));
    EXPECT_EQ(first, small);
    EXPECT_EQ(second, large);
  };
  exchange(0);
  at(1).bound_inflow(kGroup, 1);
  exchange(0);  // Over a stream that stood already,
  exchange(2);  // and over one that did not.
}

TEST_F(MessengerTest, AReceiveFromAnyRankSaysWhoItWas) {
  std::vector<uint32_t> in(4);
  const auto got = post(1, {}, {into(std::nullopt, in)}, soon());
  const auto out = numbers(4, 5);
  ASSERT_TRUE(send(2, to(1, out)));
  ASSERT_TRUE(at(1).wait(*got, soon()));
  EXPECT_EQ(got->source, Rank(2));
  EXPECT_EQ(in, out);
}

TEST_F(MessengerTest, AllToAllIsOneExchange) {
  constexpr size_t kCount = 70000;
  for (int round = 0; round < 3; ++round) {
    expect_success(world_.run([&](uint32_t rank) -> Result<void> {
      std::vector<std::vector<uint32_t>> out(3), in(3);
      std::vector<Sending> sends;
      std::vector<Receiving> receives;
      for (uint16_t peer = 0; peer < 3; ++peer) {
        if (peer == rank) continue;
        out[peer] = numbers(kCount, 100 * rank + peer);
        in[peer].resize(kCount);
        sends.push_back(to(peer, out[peer]));
        receives.push_back(into(Rank(peer), in[peer]));
      }
      auto done = at(rank).wait(*post(rank, sends, receives, soon()), soon());
      for (uint16_t peer = 0; peer < 3; ++peer) {
        if (peer == rank) continue;
        EXPECT_EQ(in[peer], numbers(kCount, 100 * peer + rank));
      }
      return done;
    }));
  }
}

TEST_F(MessengerTest, MoreSmallMessagesThanTheWindowHoldsArriveAll) {
  constexpr uint32_t kMessages = 2000;  // Of 4 KiB: eight times the window.
  std::vector<std::vector<uint32_t>> out;
  std::vector<std::shared_ptr<Exchange>> sent;
  for (uint32_t i = 0; i < kMessages; ++i) out.push_back(numbers(1024, i));
  for (uint32_t i = 0; i < kMessages; ++i) sent.push_back(post(0, {to(1, out[i])}, {}, soon()));
  for (uint32_t i = 0; i < kMessages; ++i) {
    std::vector<uint32_t> in(1024);
    ASSERT_TRUE(receive(1, into(Rank(0), in)));
    ASSERT_EQ(in, out[i]);
  }
  for (const auto& one : sent) EXPECT_TRUE(at(0).wait(*one, soon()));
}

TEST_F(MessengerTest, CompletionIsToldOnce) {
  std::atomic<int> told{0};
  std::vector<uint32_t> in(8);
  const auto got = post(1, {}, {into(Rank(0), in)}, soon(), [&] { ++told; });
  EXPECT_EQ(told, 0);
  ASSERT_TRUE(send(0, to(1, numbers(8, 1))));
  ASSERT_TRUE(at(1).wait(*got, soon()));
  messengers_.clear();  // Its threads have ended.
  EXPECT_EQ(told, 1);
}

TEST_F(MessengerTest, AReceiveThatNobodyAnswersIsWithdrawnAloneAndNamesWhomItWaitedFor) {
  std::vector<uint32_t> in(8);
  const auto lonely = post(1, {}, {into(Rank(2), in)}, soon(50ms));
  const auto outcome = at(1).wait(*lonely, soon());
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().code, ErrorCode::kTimeout);
  EXPECT_THAT(outcome.error().what, HasSubstr("nothing came from rank 2 at 127.0.0.1"));
  // The group goes on, and what comes late finds no way into the old memory.
  const auto out = numbers(8, 3);
  ASSERT_TRUE(send(2, to(1, out)));
  std::vector<uint32_t> later(8);
  ASSERT_TRUE(receive(1, into(Rank(2), later)));
  EXPECT_EQ(later, out);
  EXPECT_EQ(in, std::vector<uint32_t>(8));
}

TEST_F(MessengerTest, AnotherSizeIsAMismatchOnBothSides) {
  const auto out = numbers(100000, 0);
  std::vector<uint32_t> in(99999);
  const auto sent = post(0, {to(1, out)}, {}, soon());
  const auto got = post(1, {}, {into(Rank(0), in)}, soon());
  const auto here = at(1).wait(*got, soon());
  ASSERT_FALSE(here);
  EXPECT_EQ(here.error().code, ErrorCode::kMismatch);
  EXPECT_THAT(here.error().what, HasSubstr("400000 bytes, and rank 1 receives 399996"));
  const auto there = at(0).wait(*sent, soon());
  ASSERT_FALSE(there);
  EXPECT_THAT(there.error().what, HasSubstr("rank 1 at 127.0.0.1"));
  EXPECT_EQ(in, std::vector<uint32_t>(99999));
}

TEST_F(MessengerTest, ADeadPeerEndsWhatWaitsForIt) {
  std::vector<uint32_t> in(8);
  ASSERT_TRUE(send(0, to(1, numbers(8, 1))));
  ASSERT_TRUE(receive(1, into(Rank(0), in)));
  const auto got = post(1, {}, {into(Rank(0), in)}, soon());
  messengers_[0].reset();
  const auto outcome = at(1).wait(*got, soon());
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(outcome.error().what, HasSubstr("rank 0 at 127.0.0.1"));
}

/// The peer knows why it has ended the group; so will the coordinator, whose word all should hear.
TEST_F(MessengerTest, WhoIsRefusedAStreamWaitsAMomentForTheReason) {
  at(1).abort(kGroup, {ErrorCode::kAborted, "rank 2 died"});
  const Instant begun = net::monotonic_now();
  const auto first = post(0, {to(1, numbers(8, 1))}, {}, soon());
  const auto outcome = at(0).wait(*first, soon());
  EXPECT_GE(net::monotonic_now() - begun, 1s);
  ASSERT_FALSE(outcome);
  EXPECT_THAT(outcome.error().what, HasSubstr("rank 1 at 127.0.0.1"));
  EXPECT_FALSE(at(0).post(kGroup, {}, {}, soon()));
}

TEST_F(MessengerTest, AnAbortIsAFence) {
  const auto out = numbers(1 << 20, 1);
  std::vector<uint32_t> in(1 << 20);
  const auto got = post(1, {}, {into(Rank(0), in)}, soon());
  const auto sent = post(0, {to(1, out)}, {}, soon());
  at(1).abort(kGroup, {ErrorCode::kAborted, "enough"});
  const std::vector<uint32_t> then = in;
  const auto outcome = at(1).wait(*got, soon());
  if (!outcome) {
    EXPECT_EQ(outcome.error().what, "enough");  // Else it was through before.
  }
  EXPECT_EQ(in, then);
  (void)at(0).wait(*sent, soon());
  EXPECT_FALSE(at(1).post(kGroup, {}, {}, soon()));
  // Other groups go on.
  for (const uint32_t rank : {0u, 1u}) at(rank).open_group(GroupId(1));
  std::vector<uint32_t> other(4);
  auto waits = at(1).post(GroupId(1), {}, std::vector{into(Rank(0), other)}, soon());
  const auto nine = numbers(4, 9);
  ASSERT_TRUE(at(0).post(GroupId(1), std::vector{to(1, nine)}, {}, soon()));
  ASSERT_TRUE(waits);
  EXPECT_TRUE(at(1).wait(**waits, soon()));
}

}  // namespace
}  // namespace sumcast::mesh
