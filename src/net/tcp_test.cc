#include "net/tcp.h"

#include <gtest/gtest.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <thread>

#include "base/prng.h"
#include "net/namespace_pair.h"

namespace sumcast::net {
namespace {

using Bytes = std::vector<std::byte>;

Bytes random_bytes(size_t count, uint64_t seed) {
  Bytes bytes(count);
  Prng prng(seed);
  for (std::byte& b : bytes) b = std::byte(prng.next_u32() & 0xFF);
  return bytes;
}

Instant soon() { return monotonic_now() + 10s; }

/// Two ends of one connection over loopback.
struct Ends {
  TcpConnection client, server;
};

Ends connect_ends(const TcpOptions& options = {}, Family family = Family::kIpv4) {
  auto listener = TcpListener::open(Endpoint::loopback(family, 0), options);
  if (!listener) throw std::runtime_error(listener.error().what);
  auto client = connect_tcp(listener->local(), std::nullopt, soon(), options);
  if (!client) throw std::runtime_error(client.error().what);
  EXPECT_TRUE(wait_ready(listener->fd(), POLLIN, soon()));
  auto server = listener->accept();
  if (!server || !server->has_value()) throw std::runtime_error("nobody came");
  return {std::move(*client), std::move(**server)};
}

/// A raw byte stream into a connection, to cut frames where we like.
struct RawEnd {
  FileDescriptor raw;
  TcpConnection connection;
};

RawEnd connect_raw(const TcpOptions& options = {}) {
  auto listener = TcpListener::open(Endpoint::loopback(Family::kIpv4, 0), options);
  FileDescriptor raw(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(::connect(raw.get(), listener->local().raw(), listener->local().raw_bytes()), 0);
  EXPECT_TRUE(wait_ready(listener->fd(), POLLIN, soon()));
  return {std::move(raw), std::move(**listener->accept())};
}

void write_raw(const RawEnd& end, std::span<const std::byte> bytes) {
  ASSERT_EQ(::send(end.raw.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(bytes.size()));
}

/// Reads until `wanted` frames are there or the connection is no longer open.
ReadVerdict read_until(TcpConnection& connection, size_t wanted, std::vector<Bytes>& frames) {
  ReadVerdict verdict = ReadVerdict::kOpen;
  while (frames.size() < wanted && verdict == ReadVerdict::kOpen) {
    if (!wait_ready(connection.fd(), POLLIN, soon())) break;
    verdict = connection.read_frames([&](std::span<const std::byte> frame) {
      frames.emplace_back(frame.begin(), frame.end());
      return true;
    });
  }
  return verdict;
}

TEST(TcpFrames, ArriveWholeAndInOrder) {
  for (const Family family : {Family::kIpv4, Family::kIpv6}) {
    Ends ends = connect_ends({}, family);
    const std::vector<Bytes> sent = {random_bytes(1, 1),
                                     {},
                                     random_bytes(70000, 2),
                                     random_bytes(1 << 20, 3),
                                     random_bytes(5, 4)};
    std::thread sender([&] {
      for (const Bytes& frame : sent) {
        ASSERT_EQ(ends.client.queue_frame(frame), QueueVerdict::kQueued);
      }
      while (ends.client.flush() == FlushVerdict::kPending) {
        ASSERT_TRUE(wait_ready(ends.client.fd(), POLLOUT, soon()));
      }
      EXPECT_EQ(ends.client.queued_bytes(), 0u);
    });
    std::vector<Bytes> frames;
    EXPECT_EQ(read_until(ends.server, sent.size(), frames), ReadVerdict::kOpen);
    sender.join();
    EXPECT_EQ(frames, sent);
  }
}

TEST(TcpFrames, MayBeCutAtEveryByte) {
  const std::vector<Bytes> sent = {random_bytes(3, 1), {}, random_bytes(9, 2)};
  Bytes stream;
  for (const Bytes& frame : sent) {
    stream.push_back(std::byte(frame.size()));
    stream.insert(stream.end(), 3, std::byte(0));
    stream.insert(stream.end(), frame.begin(), frame.end());
  }
  RawEnd end = connect_raw();
  for (size_t cut = 0; cut <= stream.size(); ++cut) {
    std::vector<Bytes> frames;
    const auto keep = [&](std::span<const std::byte> frame) {
      frames.emplace_back(frame.begin(), frame.end());
      return true;
    };
    write_raw(end, std::span(stream).first(cut));
    if (cut > 0) {
      ASSERT_TRUE(wait_ready(end.connection.fd(), POLLIN, soon()));
    }
    ASSERT_EQ(end.connection.read_frames(keep), ReadVerdict::kOpen);
    const size_t whole = frames.size();
    EXPECT_EQ(whole, (cut >= 7) + (cut >= 11) + (cut >= 24)) << cut;
    write_raw(end, std::span(stream).subspan(cut));
    ASSERT_EQ(read_until(end.connection, 3, frames), ReadVerdict::kOpen);
    ASSERT_EQ(frames, sent) << "cut at " << cut;
  }
}

TEST(TcpFrames, AreRefusedWhenTooLong) {
  TcpOptions options;
  options.frame_bytes_max = 100;
  RawEnd end = connect_raw(options);
  EXPECT_EQ(end.connection.queue_frame(Bytes(101)), QueueVerdict::kTooLong);
  EXPECT_EQ(end.connection.queue_frame(Bytes(100)), QueueVerdict::kQueued);
  Bytes stream = {std::byte(1), std::byte(0), std::byte(0), std::byte(0), std::byte(42)};
  for (const int b : {101, 0, 0, 0}) stream.push_back(std::byte(b));
  write_raw(end, stream);
  std::vector<Bytes> frames;
  EXPECT_EQ(read_until(end.connection, 2, frames), ReadVerdict::kTooLong);
  EXPECT_EQ(frames.size(), 1u) << "the frame before it counts";
  EXPECT_NE(end.connection.failure_text().find("more than 100 bytes"), std::string::npos);
  const auto none = [](std::span<const std::byte>) { return true; };
  EXPECT_EQ(end.connection.read_frames(none), ReadVerdict::kTooLong) << "the verdict stays";
}

TEST(TcpFrames, BoundTheirQueue) {
  TcpOptions options;
  options.frame_bytes_max = 1000;
  options.queue_bytes_max = 2500;
  Ends ends = connect_ends(options);
  EXPECT_EQ(ends.client.queue_frame(Bytes(1000)), QueueVerdict::kQueued);
  EXPECT_EQ(ends.client.queue_frame(Bytes(1000)), QueueVerdict::kQueued);
  EXPECT_EQ(ends.client.queue_frame(Bytes(1000)), QueueVerdict::kFull);
  EXPECT_EQ(ends.client.flush(), FlushVerdict::kDrained);
  EXPECT_EQ(ends.client.queue_frame(Bytes(1000)), QueueVerdict::kQueued);
}

TEST(TcpFrames, WaitWhenTheReaderStops) {
  Ends ends = connect_ends();
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(ends.client.queue_frame(Bytes(10, std::byte(i))), QueueVerdict::kQueued);
  }
  ASSERT_EQ(ends.client.flush(), FlushVerdict::kDrained);
  std::vector<std::byte> firsts;
  const auto one_at_a_time = [&](std::span<const std::byte> frame) {
    firsts.push_back(frame[0]);
    return false;
  };
  for (int i = 0; i < 3; ++i) {
    // What a stop left behind is in our storage, where poll does not see it.
    if (i == 0) {
      ASSERT_TRUE(wait_ready(ends.server.fd(), POLLIN, soon()));
    }
    ASSERT_EQ(ends.server.read_frames(one_at_a_time), ReadVerdict::kStopped);
  }
  EXPECT_EQ(firsts, (Bytes{std::byte(0), std::byte(1), std::byte(2)}));
  EXPECT_EQ(ends.server.read_frames(one_at_a_time), ReadVerdict::kOpen);
}

TEST(TcpFrames, ComeBeforeTheEnd) {
  RawEnd end = connect_raw();
  Bytes stream = {std::byte(1), std::byte(0), std::byte(0), std::byte(0), std::byte(7)};
  write_raw(end, stream);
  write_raw(end, std::span(stream).first(4));
  end.raw.close();
  std::vector<Bytes> frames;
  EXPECT_EQ(read_until(end.connection, 99, frames), ReadVerdict::kEnded);
  EXPECT_EQ(frames.size(), 1u);
  EXPECT_NE(end.connection.failure_text().find("in the middle of a frame"), std::string::npos);
}

TEST(TcpFrames, TellAResetFromAnEnd) {
  RawEnd end = connect_raw();
  const linger hard{1, 0};
  ASSERT_EQ(::setsockopt(end.raw.get(), SOL_SOCKET, SO_LINGER, &hard, sizeof hard), 0);
  end.raw.close();
  std::vector<Bytes> frames;
  EXPECT_EQ(read_until(end.connection, 1, frames), ReadVerdict::kFailed);
  EXPECT_NE(end.connection.failure_text().find("reset the connection"), std::string::npos);
  ASSERT_EQ(end.connection.queue_frame(Bytes(1)), QueueVerdict::kQueued);
  EXPECT_EQ(end.connection.flush(), FlushVerdict::kFailed);
}

TEST(TcpBulk, ExchangesAroundARingLargerThanTheBuffers) {
  // Three members, each sending 8 MiB to the next while receiving from the one before.
  constexpr size_t kBytes = 8 << 20;
  std::vector<TcpConnection> to_next, from_previous;
  for (int i = 0; i < 3; ++i) {
    Ends ends = connect_ends();
    to_next.push_back(std::move(ends.client));
    from_previous.push_back(std::move(ends.server));  // Of member i + 1.
  }
  std::vector<Bytes> out, in(3, Bytes(kBytes));
  for (uint64_t i = 0; i < 3; ++i) out.push_back(random_bytes(kBytes, i));
  std::vector<std::thread> members;
  for (size_t i = 0; i < 3; ++i) {
    members.emplace_back([&, i] {
      const auto done = exchange(to_next[i], out[i], from_previous[(i + 2) % 3], in[i], soon());
      EXPECT_TRUE(done) << done.error().what;
    });
  }
  for (std::thread& member : members) member.join();
  for (size_t i = 0; i < 3; ++i) EXPECT_TRUE(in[i] == out[(i + 2) % 3]) << i;
}

TEST(TcpBulk, SendsAndReceivesAll) {
  Ends ends = connect_ends();
  const Bytes out = random_bytes(3 << 20, 9);
  Bytes in(out.size());
  std::thread sender([&] { EXPECT_TRUE(ends.client.send_all(out, soon())); });
  EXPECT_TRUE(ends.server.receive_all(in, soon()));
  sender.join();
  EXPECT_TRUE(in == out);
  EXPECT_TRUE(ends.client.send_all({}, Instant{1})) << "nothing takes no time";
}

TEST(TcpBulk, EndsAtItsDeadlineAndNamesThePeer) {
  Ends ends = connect_ends();
  Bytes in(100);
  ASSERT_TRUE(ends.client.send_all(Bytes(40), soon()));
  const auto late = ends.server.receive_all(in, monotonic_now() + 30ms);
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, ErrorCode::kTimeout);
  EXPECT_EQ(late.error().what,
            ends.client.local().text() + " sends no more data; 60 bytes are missing");
}

TEST(TcpBulk, ReportsAPeerThatCloses) {
  RawEnd end = connect_raw();
  Bytes in(100);
  end.raw.close();
  const auto closed = end.connection.receive_all(in, soon());
  ASSERT_FALSE(closed);
  EXPECT_EQ(closed.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(closed.error().what.find("closed the connection"), std::string::npos);
}

TEST(TcpListener, TakesBothFamiliesOnTheIpv6Wildcard) {
  auto listener = TcpListener::open(Endpoint::any(Family::kIpv6, 0));
  ASSERT_TRUE(listener) << listener.error().what;
  EXPECT_FALSE(listener->accept()->has_value());
  for (const Family family : {Family::kIpv4, Family::kIpv6}) {
    const auto client =
        connect_tcp(Endpoint::loopback(family, listener->local().port()), std::nullopt, soon());
    ASSERT_TRUE(client) << client.error().what;
    ASSERT_TRUE(wait_ready(listener->fd(), POLLIN, soon()));
    const auto server = listener->accept();
    ASSERT_TRUE(server && server->has_value());
    EXPECT_EQ((*server)->remote(), client->local());
    EXPECT_EQ((*server)->remote().family(), family) << "mapped addresses are unmapped";
  }
}

/// Sends `bytes` of zeros across and returns the window that the sender knows then.
uint32_t window_after(TcpConnection& client, TcpConnection& server, size_t bytes) {
  const Bytes out(bytes);
  Bytes in(bytes);
  std::thread sender([&] { EXPECT_TRUE(client.send_all(out, soon())); });
  EXPECT_TRUE(server.receive_all(in, soon()));
  sender.join();
  tcp_info info{};
  socklen_t size = sizeof info;
  EXPECT_EQ(::getsockopt(client.fd(), IPPROTO_TCP, TCP_INFO, &info, &size), 0);
  return info.tcpi_snd_wnd;
}

TEST(BoundInflow, HoldsThePeerToAWindowThatDoesNotGrow) {
  constexpr size_t kWindow = 20'000, kBytes = 16 << 20;
  std::string reason;
  const auto pair = NamespacePair::open(reason);
  if (pair == nullptr) GTEST_SKIP() << reason;
  std::optional<TcpListener> listener;
  {
    const auto inside = pair->inside_b();
    listener = std::move(*TcpListener::open(*parse_endpoint("10.77.0.2:0")));
  }
  const auto inside = pair->inside_a();
  for (const bool is_bounded : {false, true}) {
    auto client = connect_tcp(listener->local(), std::nullopt, soon());
    ASSERT_TRUE(client) << client.error().what;
    ASSERT_TRUE(wait_ready(listener->fd(), POLLIN, soon()));
    auto server = listener->accept();
    ASSERT_TRUE(server && server->has_value());
    if (is_bounded) {
      ASSERT_EQ(bound_inflow((*server)->fd(), kWindow), 0);
      EXPECT_LT(window_after(*client, **server, kBytes), 2 * kWindow);
    } else {
      EXPECT_GT(window_after(*client, **server, kBytes), 2 * kWindow);
    }
  }
}

/// Less than a segment would be worse than slow: on loopback one takes 64 KiB.
TEST(BoundInflow, LeavesRoomForSomeSegments) {
  Ends ends = connect_ends();
  ASSERT_EQ(bound_inflow(ends.server.fd(), 1), 0);
  EXPECT_GE(get_option(ends.server.fd(), SOL_SOCKET, SO_RCVBUF), 4 * 65000);
  window_after(ends.client, ends.server, 64 << 20);
}

TEST(TcpListener, NamesTheProcessThatHoldsAPort) {
  auto first = TcpListener::open(Endpoint::any(Family::kIpv4, 0));
  ASSERT_TRUE(first);
  const auto second = TcpListener::open(first->local());
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(second.error().what.find(fmt::format("already in use by pid {}", ::getpid())),
            std::string::npos)
      << second.error().what;
}

TEST(ConnectTcp, SaysThatThePeerRefuses) {
  Endpoint gone;
  {
    auto listener = TcpListener::open(Endpoint::loopback(Family::kIpv4, 0));
    gone = listener->local();
  }
  const auto refused = connect_tcp(gone, std::nullopt, soon());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(refused.error().what, gone.text() + " refused the connection: nothing listens there");
}

TEST(ConnectTcp, ComesFromTheAddressAskedFor) {
  auto listener = TcpListener::open(Endpoint::any(Family::kIpv4, 0));
  const auto client = connect_tcp(Endpoint::loopback(Family::kIpv4, listener->local().port()),
                                  *parse_endpoint("127.0.0.7:0"), soon());
  ASSERT_TRUE(client) << client.error().what;
  EXPECT_EQ(client->local().address_text(), "127.0.0.7");
  const auto foreign = connect_tcp(listener->local(), *parse_endpoint("203.0.113.9:0"), soon());
  ASSERT_FALSE(foreign);
  EXPECT_EQ(foreign.error().what, "203.0.113.9 is not an address of this host");
}

TEST(ConnectTcp, TellsSilenceFromAMissingRoute) {
  std::string reason;
  const auto pair = NamespacePair::open(reason);
  if (pair == nullptr) GTEST_SKIP() << reason;
  // A host that never answers: its link-layer address is made up, so nothing says "unreachable".
  ASSERT_TRUE(pair->in_a("ip neigh add 10.77.0.9 lladdr 02:00:00:00:00:09 dev va"));
  const auto inside = pair->inside_a();
  const auto silent =
      connect_tcp(*parse_endpoint("10.77.0.9:4711"), std::nullopt, monotonic_now() + 100ms);
  ASSERT_FALSE(silent);
  EXPECT_EQ(silent.error().code, ErrorCode::kTimeout);
  EXPECT_EQ(silent.error().what, "10.77.0.9:4711 did not answer within 0.1 s");
  const auto nowhere = connect_tcp(*parse_endpoint("192.0.2.1:4711"), std::nullopt, soon());
  ASSERT_FALSE(nowhere);
  EXPECT_EQ(nowhere.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(nowhere.error().what.find("no route to 192.0.2.1:4711"), std::string::npos);
}

}  // namespace
}  // namespace sumcast::net
