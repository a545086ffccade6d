// Who gets a stream and who does not.
#include "mesh/mesh.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "auth/derive.h"
#include "mesh/handshake.h"
#include "mesh/test_world.h"
#include "net/tcp.h"

namespace sumcast::mesh {
namespace {

using ::testing::HasSubstr;

Instant in(Duration span) { return net::monotonic_now() + span; }

/// Two ranks whose settings may differ.
struct Pair {
  std::unique_ptr<Mesh> low, high;

  Pair(std::optional<auth::Key> low_key, std::optional<auth::Key> high_key,
       Incarnation high_incarnation = kTestIncarnation) {
    const auto any = net::Endpoint::loopback(net::Family::kIpv4, 0);
    low = *Mesh::open(any, std::move(low_key));
    high = *Mesh::open(any, std::move(high_key));
    const std::vector<net::Endpoint> peers{low->endpoint(), high->endpoint()};
    low->start(kTestIncarnation, Rank(0), peers);
    high->start(high_incarnation, Rank(1), peers);
  }
  Result<std::shared_ptr<Stream>> open(Duration patience = 10s) {
    return low->stream(GroupId(3), Rank(1), 0, in(patience));
  }
};

void expect_connected(Stream& from, Stream& to) {
  char sent = 'x', got = 0;
  iovec out{&sent, 1}, space{&got, 1};
  EXPECT_EQ(from.send(std::span(&out, 1)).bytes, 1u);
  EXPECT_EQ(to.receive(std::span(&space, 1), true).bytes, 1u);
  EXPECT_EQ(got, sent);
}

TEST(MeshTest, BothEndsGetTheSameStreamAndKeepIt) {
  Pair pair(test_key(1), test_key(1));
  auto low = pair.open();
  ASSERT_TRUE(low) << low.error().what;
  auto high = pair.high->stream(GroupId(3), Rank(0), 0, in(10s));
  ASSERT_TRUE(high) << high.error().what;
  expect_connected(**low, **high);
  expect_connected(**high, **low);
  EXPECT_EQ(*pair.open(), *low);
  EXPECT_EQ((*low)->peer(), "rank 1 at " + pair.high->endpoint().text());
}

TEST(MeshTest, GroupsAndLanesHaveStreamsOfTheirOwn) {
  Pair pair(std::nullopt, std::nullopt);
  auto one = pair.low->stream(GroupId(1), Rank(1), 0, in(10s));
  auto two = pair.low->stream(GroupId(1), Rank(1), 1, in(10s));
  auto three = pair.low->stream(GroupId(2), Rank(1), 0, in(10s));
  ASSERT_TRUE(one && two && three);
  EXPECT_NE(*one, *two);
  EXPECT_NE(*one, *three);
  auto other = pair.high->stream(GroupId(1), Rank(0), 1, in(10s));
  ASSERT_TRUE(other);
  expect_connected(**two, **other);
}

TEST(MeshTest, AWrongKeyIsDenied) {
  Pair pair(test_key(1), test_key(2));
  const auto stream = pair.open();
  ASSERT_FALSE(stream);
  EXPECT_EQ(stream.error().code, ErrorCode::kDenied);
  EXPECT_THAT(stream.error().what, HasSubstr("rank 1 at 127.0.0.1:"));
  EXPECT_THAT(stream.error().what, HasSubstr("another key"));
}

TEST(MeshTest, AMissingKeyIsDeniedOnEitherSide) {
  Pair lacks(std::nullopt, test_key(1));
  auto stream = lacks.open();
  ASSERT_FALSE(stream);
  EXPECT_EQ(stream.error().code, ErrorCode::kDenied);
  Pair has(test_key(1), std::nullopt);
  stream = has.open();
  ASSERT_FALSE(stream);
  EXPECT_EQ(stream.error().code, ErrorCode::kDenied);
}

TEST(MeshTest, AnotherStartOfTheJobIsDenied) {
  Pair pair(test_key(1), test_key(1), Incarnation(78));
  const auto stream = pair.open();
  ASSERT_FALSE(stream);
  EXPECT_EQ(stream.error().code, ErrorCode::kDenied);
  EXPECT_THAT(stream.error().what, HasSubstr("another start"));
}

TEST(MeshTest, AHostThatHasNotStartedIsWaitedForUntilTheDeadline) {
  const auto any = net::Endpoint::loopback(net::Family::kIpv4, 0);
  auto low = *Mesh::open(any, std::nullopt);
  auto high = *Mesh::open(any, std::nullopt);
  const std::vector<net::Endpoint> peers{low->endpoint(), high->endpoint()};
  low->start(kTestIncarnation, Rank(0), peers);
  const auto early = low->stream(GroupId(0), Rank(1), 0, in(50ms));
  ASSERT_FALSE(early);
  EXPECT_EQ(early.error().code, ErrorCode::kTimeout);
  EXPECT_THAT(early.error().what, HasSubstr("rank 1 at 127.0.0.1:"));
  high->start(kTestIncarnation, Rank(1), peers);
  EXPECT_TRUE(low->stream(GroupId(0), Rank(1), 0, in(10s)));
}

TEST(MeshTest, AThiefOfNamesWithoutTheKeyGetsNoStream) {
  Pair pair(test_key(1), test_key(1));
  auto thief = net::connect_tcp(pair.high->endpoint(), std::nullopt, in(10s));
  ASSERT_TRUE(thief);
  Hello hello;
  hello.incarnation = kTestIncarnation;
  hello.from = Rank(0);
  hello.to = Rank(1);
  hello.group = GroupId(3);
  hello.keyed = 1;
  ASSERT_TRUE(thief->send_all(bytes_of(hello), in(10s)));
  Reply reply;
  ASSERT_TRUE(thief->receive_all(writable_bytes_of(reply), in(10s)));
  EXPECT_EQ(reply.answer, Answer::kWelcome);
  // Reflecting the host's own proof is the best that can be done without the key.
  ASSERT_TRUE(thief->send_all(reply.proof, in(10s)));
  std::byte more;
  const auto after = thief->receive_all(std::span(&more, 1), in(10s));
  ASSERT_FALSE(after);
  EXPECT_EQ(after.error().code, ErrorCode::kUnavailable);  // Shown the door, not the deadline.
  EXPECT_FALSE(pair.high->stream(GroupId(3), Rank(0), 0, in(1ms)));
}

TEST(MeshTest, GarbageIsClosedAndACrowdOfSilentStrangersKeepsNobodyOut) {
  Pair pair(test_key(1), test_key(1));
  auto garbage = net::connect_tcp(pair.high->endpoint(), std::nullopt, in(10s));
  ASSERT_TRUE(garbage);
  const std::array<std::byte, sizeof(Hello)> zeros{};
  ASSERT_TRUE(garbage->send_all(zeros, in(10s)));
  std::byte more;
  const auto closed = garbage->receive_all(std::span(&more, 1), in(10s));
  ASSERT_FALSE(closed);
  EXPECT_EQ(closed.error().code, ErrorCode::kUnavailable);

  std::vector<net::TcpConnection> crowd;
  for (size_t i = 0; i < 2 * kKnocksMax; ++i) {
    auto stranger = net::connect_tcp(pair.high->endpoint(), std::nullopt, in(10s));
    ASSERT_TRUE(stranger);
    crowd.push_back(std::move(*stranger));
  }
  auto low = pair.open();
  ASSERT_TRUE(low) << low.error().what;
  auto high = pair.high->stream(GroupId(3), Rank(0), 0, in(10s));
  ASSERT_TRUE(high) << high.error().what;
  expect_connected(**low, **high);
  // The oldest made room for the newest.
  const auto evicted = crowd.front().receive_all(std::span(&more, 1), in(10s));
  ASSERT_FALSE(evicted);
  EXPECT_EQ(evicted.error().code, ErrorCode::kUnavailable);
}

TEST(MeshTest, AnAbortedGroupIsNotReopenedByAPeer) {
  Pair pair(test_key(1), test_key(1));
  pair.high->abort(GroupId(3), {ErrorCode::kAborted, "for a reason"});
  const auto stream = pair.open();
  ASSERT_FALSE(stream);
  EXPECT_EQ(stream.error().code, ErrorCode::kAborted);
  EXPECT_TRUE(pair.low->stream(GroupId(4), Rank(1), 0, in(10s)));
}

TEST(MeshTest, AGroupIdMayBeUsedAgainAfterBothClosedIt) {
  Pair pair(test_key(1), test_key(1));
  for (int i = 0; i < 3; ++i) {
    auto low = pair.open();
    auto high = pair.high->stream(GroupId(3), Rank(0), 0, in(10s));
    ASSERT_TRUE(low && high);
    expect_connected(**low, **high);
    pair.low->close_group(GroupId(3));
    pair.high->close_group(GroupId(3));
    EXPECT_TRUE((*low)->is_shut());
  }
}

TEST(HandshakeTest, AProofIsGoodForOneStreamOnly) {
  const auth::Key key = test_key(9);
  Hello hello;
  hello.from = Rank(1);
  hello.to = Rank(2);
  const auth::ControlNonce nonce = auth::random_nonce();
  const auto proof = stream_seal(key, hello, nonce, auth::Side::kServer).seal(bytes_of(hello));
  EXPECT_TRUE(stream_seal(key, hello, nonce, auth::Side::kClient).open(bytes_of(hello), proof));

  const auto opens = [&](const Hello& other) {
    return stream_seal(key, other, nonce, auth::Side::kClient).open(bytes_of(other), proof);
  };
  Hello changed = hello;
  changed.from = Rank(0);
  EXPECT_FALSE(opens(changed));
  changed = hello;
  changed.lane = 1;
  EXPECT_FALSE(opens(changed));
  changed = hello;
  changed.incarnation = Incarnation(1);
  EXPECT_FALSE(opens(changed));
  EXPECT_FALSE(stream_seal(key, hello, auth::random_nonce(), auth::Side::kClient)
                   .open(bytes_of(hello), proof));
  EXPECT_FALSE(
      stream_seal(test_key(8), hello, nonce, auth::Side::kClient).open(bytes_of(hello), proof));
}

}  // namespace
}  // namespace sumcast::mesh
