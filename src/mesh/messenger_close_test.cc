// Groups that close: what was sent before arrives, whatever its sender and receiver do meanwhile.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <future>
#include <thread>

#include "mesh/test_messengers.h"

namespace sumcast::mesh {
namespace {

using ::testing::HasSubstr;

using MessengerCloseTest = MessengerTest;

/// Eager ones, of which the window of a sender takes more than sixty.
constexpr size_t kMessageBytes = 16 << 10;
constexpr size_t kWords = kMessageBytes / 4;
static_assert(kMessageBytes <= kEagerBytesMax && 62 * kMessageBytes <= kEagerWindowBytes);

TEST_F(MessengerCloseTest, WhatWasSentBeforeAGroupClosedArrives) {
  const auto out = numbers(4000, 5);
  ASSERT_TRUE(send(0, to(1, out)));
  at(0).close_group(kGroup);
  std::vector<uint32_t> in(4000);
  ASSERT_TRUE(receive(1, into(Rank(0), in)));
  EXPECT_EQ(in, out);
}

TEST_F(MessengerCloseTest, AcknowledgementsToASenderThatClosesCostNoMessage) {
  // Rank 1's part is played by hand: a kernel that takes little, so that most of what is sent
  // still waits in rank 0's when that closes.
  std::promise<std::shared_ptr<Stream>> opened;
  world_.mesh(1).set_message_host({[](GroupId, Rank) { return true; },
                                   [&](GroupId, Rank, std::shared_ptr<Stream> stream) {
                                     net::set_option(stream->fd(), SOL_SOCKET, SO_RCVBUF, 65536);
                                     opened.set_value(std::move(stream));
                                   }});
  constexpr uint32_t kCount = 40;
  for (uint32_t i = 0; i < kCount; ++i) ASSERT_TRUE(send(0, to(1, numbers(kWords, i))));
  const auto stream = opened.get_future().get();
  std::thread closer([&] { at(0).close_group(kGroup); });
  const Instant begun = soon(1s);
  while (at(0).post(kGroup, {}, {}, soon()) && net::monotonic_now() < begun) {
    std::this_thread::sleep_for(1ms);
  }
  MessageHeader credit{MessageKind::kCredit, 0, 0, 2 * kMessageBytes, 0};
  iovec part{&credit, sizeof credit};
  EXPECT_EQ(stream->send(std::span(&part, 1)).bytes, sizeof credit);
  std::vector<std::byte> room(1 << 20);
  part = {room.data(), room.size()};
  Moved moved;
  uint64_t got = 0;
  do {
    EXPECT_TRUE(net::wait_ready(stream->fd(), POLLIN, soon()));
    moved = stream->receive(std::span(&part, 1), false);
    got += moved.bytes;
  } while (moved.error_number == 0);
  EXPECT_EQ(moved.error_number, kPeerClosed);
  EXPECT_EQ(got, kCount * (sizeof(MessageHeader) + kMessageBytes));
  stream->shut();
  closer.join();
  world_.mesh(1).set_message_host({});
}

/// Keeps a messenger's thread busy, as a process that got no time would: it is stuck in the
/// callback of an exchange until it is let go.
class Stall {
 public:
  ~Stall() { let_go(); }
  std::function<void()> callback() {
    return [this] {
      stuck_ = true;
      stuck_.notify_all();
      free_.wait(false);
    };
  }
  void wait_until_stuck() { stuck_.wait(false); }
  void let_go() {
    free_ = true;
    free_.notify_all();
  }

 private:
  std::atomic<bool> stuck_{false}, free_{false};
};

/// Rank 0 sends rank 1 messages that wait on its board (tag 1), then one that stalls its thread
/// (tag 2), then more, which wait in its kernel (tag 3).
class StalledReceiver : public MessengerCloseTest {
 protected:
  static constexpr uint32_t kEarly = 48, kLate = 12;

  void SetUp() override {
    for (uint32_t i = 0; i < kEarly; ++i) {
      ASSERT_TRUE(send(0, to(1, numbers(kWords, i), 1)));
    }
    const auto last = post(1, {}, {into(Rank(0), in_, 2)}, soon(), stall_.callback());
    ASSERT_TRUE(send(0, to(1, numbers(kWords, 0), 2)));
    stall_.wait_until_stuck();
    for (uint32_t i = 0; i < kLate; ++i) {
      ASSERT_TRUE(send(0, to(1, numbers(kWords, i), 3)));
    }
  }
  void receive_all(uint32_t count, uint64_t tag) {
    for (uint32_t i = 0; i < count; ++i) {
      ASSERT_TRUE(receive(1, into(Rank(0), in_, tag))) << "message " << i << " of tag " << tag;
      ASSERT_EQ(in_, numbers(kWords, i));
    }
  }

  std::vector<uint32_t> in_ = std::vector<uint32_t>(kWords);
  Stall stall_;
};

TEST_F(StalledReceiver, WhatHasArrivedStaysThoughTheSenderIsGone) {
  at(0).close_group(kGroup);  // Gives up waiting for a peer that does not read.
  receive_all(kEarly, 1);     // Acknowledgements fail.
  stall_.let_go();
  ASSERT_TRUE(receive(1, into(Rank(0), in_, 3)));  // This kernel had taken it.
  EXPECT_EQ(in_, numbers(kWords, 0));
}

TEST_F(MessengerCloseTest, AStreamThatComesTooLateIsRefusedAndTheGroupMayComeAgain) {
  at(1).close_group(kGroup);
  const auto late = post(0, {to(1, numbers(10, 1))}, {}, soon());
  const auto outcome = at(0).wait(*late, soon());
  ASSERT_FALSE(outcome);
  EXPECT_THAT(outcome.error().what, HasSubstr("rank 1 at 127.0.0.1"));
  EXPECT_FALSE(at(1).post(kGroup, {}, {}, soon()));
  at(0).close_group(kGroup);
  for (const uint32_t rank : {0u, 1u}) {
    world_.mesh(rank).close_group(kGroup);
    at(rank).open_group(kGroup);
  }
  const auto out = numbers(10, 2);
  ASSERT_TRUE(send(0, to(1, out)));
  std::vector<uint32_t> in(10);
  ASSERT_TRUE(receive(1, into(Rank(0), in)));
  EXPECT_EQ(in, out);
}

TEST_F(MessengerCloseTest, APeerThatIsAheadFindsItsMessageReceivedOnceTheGroupIsOpen) {
  at(0).open_group(GroupId(5));
  const auto out = numbers(10, 3);
  auto ahead = at(0).post(GroupId(5), std::vector{to(1, out)}, {}, soon());
  ASSERT_TRUE(ahead);
  ASSERT_TRUE(at(0).wait(**ahead, soon()));
  std::vector<uint32_t> in(10);
  const std::vector want{into(Rank(0), in)};
  EXPECT_FALSE(at(1).post(GroupId(5), {}, want, soon()));  // Not open here.
  at(1).open_group(GroupId(5));
  auto got = at(1).post(GroupId(5), {}, want, soon());
  ASSERT_TRUE(got);
  ASSERT_TRUE(at(1).wait(**got, soon()));
  EXPECT_EQ(in, out);
}

TEST_F(MessengerCloseTest, StreamsOfUnknownGroupsAreBounded) {
  // Streams of one rank, to a rank that knows none of their groups: the last is refused.
  for (uint32_t id = 1; id <= kEarlyStreamsMax + 1; ++id) {
    const GroupId group(static_cast<uint16_t>(id));
    auto stream = world_.mesh(0).stream(group, Rank(1), kMessageLane, soon());
    EXPECT_EQ(stream.has_value(), id <= kEarlyStreamsMax) << id;
    world_.mesh(0).close_group(group);
  }
  // An open one is not concerned.
  ASSERT_TRUE(send(0, to(1, numbers(10, 1))));
}

}  // namespace
}  // namespace sumcast::mesh
