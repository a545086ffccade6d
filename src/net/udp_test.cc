#include "net/udp.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <vector>

#include "base/prng.h"
#include "net/namespace_pair.h"
#include "net/port_owner.h"

namespace sumcast::net {
namespace {

using Bytes = std::vector<std::byte>;

/// A run with bytes of its own, cut into parts as a tensor's chunks are: header, payload, tag.
struct OwnedRun {
  Bytes bytes;
  std::vector<iovec> parts;
  SendRun run;

  OwnedRun(uint32_t datagram_bytes, uint32_t datagrams, uint32_t last_bytes, uint64_t seed) {
    bytes.resize((datagrams - 1) * datagram_bytes + last_bytes);
    Prng prng(seed);
    for (std::byte& b : bytes) b = std::byte(prng.next_u32() & 0xFF);
    for (uint32_t i = 0; i < datagrams; ++i) {
      std::byte* at = bytes.data() + size_t{i} * datagram_bytes;
      const uint32_t length = i + 1 == datagrams ? last_bytes : datagram_bytes;
      const uint32_t header = std::min(length, 24u);
      const uint32_t tag = std::min(length - header, 16u);
      parts.push_back({at, header});
      parts.push_back({at + header, length - header - tag});
      if (tag > 0) parts.push_back({at + length - tag, tag});
    }
    run = {nullptr, parts, datagram_bytes, datagrams, last_bytes, 0};
  }
  OwnedRun(const OwnedRun&) = delete;

  Bytes datagram(uint32_t i) const {
    const size_t begin = size_t{i} * run.datagram_bytes;
    const size_t end = std::min(begin + run.datagram_bytes, bytes.size());
    return Bytes(bytes.begin() + static_cast<ptrdiff_t>(begin),
                 bytes.begin() + static_cast<ptrdiff_t>(end));
  }
};

struct Arrived {
  Bytes bytes;
  Endpoint from;
};

/// Receives until `wanted` datagrams have come or nothing more does.
std::vector<Arrived> collect(UdpSocket& socket, ReceiveBuffers& buffers, size_t wanted,
                             Duration patience = 5s) {
  std::vector<Arrived> arrived;
  std::array<ReceivedBatch, 8> batches;
  while (arrived.size() < wanted && wait_ready(socket.fd(), POLLIN, monotonic_now() + patience)) {
    const size_t count = socket.receive(buffers, batches);
    for (size_t i = 0; i < count; ++i) {
      for (const std::span<std::byte> datagram : segments(batches[i])) {
        arrived.push_back({Bytes(datagram.begin(), datagram.end()), batches[i].from});
      }
      buffers.release(batches[i].buffer);
    }
  }
  return arrived;
}

UdpOptions on(const Endpoint& local) {
  UdpOptions options;
  options.local = local;
  return options;
}

UdpSocket open_or_die(const UdpOptions& options) {
  auto socket = UdpSocket::open(options);
  if (!socket) throw std::runtime_error(socket.error().what);
  return std::move(*socket);
}

UdpSocket on_loopback(Family family = Family::kIpv4) {
  return open_or_die(on(Endpoint::loopback(family, 0)));
}

/// Every pair of what sender and receiver can do, over either family, on loopback or a cable.
struct World {
  Family family;
  bool gso, gro, veth, connected;
};

class UdpRuns : public testing::TestWithParam<World> {
 protected:
  void SetUp() override {
    const World& world = GetParam();
    UdpOptions tx_options = on(Endpoint::loopback(world.family, 0));
    UdpOptions rx_options = tx_options;
    if (world.veth) {
      std::string reason;
      pair_ = NamespacePair::open(reason);
      if (pair_ == nullptr) GTEST_SKIP() << reason;
      const bool v4 = world.family == Family::kIpv4;
      tx_options.local = *parse_endpoint(v4 ? "10.77.0.1:0" : "[fd77::1]:0");
      rx_options.local = *parse_endpoint(v4 ? "10.77.0.2:0" : "[fd77::2]:0");
    }
    tx_options.gso = world.gso;
    rx_options.gro = world.gro;
    tx_ = open_in(true, tx_options);
    rx_ = open_in(false, rx_options);
    if (world.connected) {
      ASSERT_TRUE(tx_->connect(rx_->local()));
      ASSERT_TRUE(rx_->connect(tx_->local()));
    }
  }

  std::optional<UdpSocket> open_in(bool a, const UdpOptions& options) {
    if (pair_ == nullptr) return open_or_die(options);
    const auto inside = a ? pair_->inside_a() : pair_->inside_b();
    return open_or_die(options);
  }

  std::unique_ptr<NamespacePair> pair_;
  std::optional<UdpSocket> tx_, rx_;
  ReceiveBuffers buffers_{32};
};

TEST_P(UdpRuns, ArriveWithTheirBytesAndBoundaries) {
  EXPECT_EQ(tx_->has_gso(), GetParam().gso) << "this kernel offers segmentation";
  EXPECT_EQ(rx_->has_gro(), GetParam().gro) << "this kernel offers receive offload";
  const struct {
    uint32_t datagram_bytes, datagrams, last_bytes;
  } kShapes[] = {{1450, 44, 1450}, {1450, 44, 1}, {1450, 1, 1450}, {1450, 2, 777},
                 {100, 44, 100},   {100, 3, 99},  {1, 44, 1},      {1450, 43, 40}};
  const Endpoint to = rx_->local();
  uint64_t seed = 1;
  for (const auto& shape : kShapes) {
    OwnedRun owned(shape.datagram_bytes, shape.datagrams, shape.last_bytes, seed++);
    if (!GetParam().connected) owned.run.to = &to;
    const SendOutcome outcome = tx_->send(owned.run);
    ASSERT_TRUE(outcome.complete()) << outcome.error_number;
    EXPECT_EQ(outcome.datagrams, shape.datagrams);
    EXPECT_EQ(outcome.runs, 1u);
    const auto arrived = collect(*rx_, buffers_, shape.datagrams);
    ASSERT_EQ(arrived.size(), shape.datagrams);
    for (uint32_t i = 0; i < shape.datagrams; ++i) {
      ASSERT_EQ(arrived[i].bytes, owned.datagram(i)) << "datagram " << i;
      if (!GetParam().connected) {
        EXPECT_EQ(arrived[i].from, tx_->local());
      }
    }
    EXPECT_EQ(buffers_.available(), buffers_.count());
  }
  EXPECT_EQ(rx_->receive_drops(), 0u);
  EXPECT_EQ(tx_->has_gso(), GetParam().gso) << "no device refused it";
}

TEST_P(UdpRuns, CostOneSystemCallWithOffload) {
  const Endpoint to = rx_->local();
  OwnedRun owned(1450, 44, 1450, 3);
  if (!GetParam().connected) owned.run.to = &to;
  ASSERT_TRUE(tx_->send(owned.run).complete());
  EXPECT_EQ(tx_->system_calls(), 1u) << "sendmmsg takes 44 messages, too";
  ASSERT_TRUE(wait_ready(rx_->fd(), POLLIN, monotonic_now() + 5s));
  std::array<ReceivedBatch, 4> batches;
  const size_t count = rx_->receive(buffers_, batches);
  EXPECT_EQ(rx_->system_calls(), 1u);
  // What the sender gave as one batch stays one up to the receiver, on loopback and over veth.
  if (GetParam().gso && GetParam().gro) {
    ASSERT_EQ(count, 1u);
    EXPECT_EQ(batches[0].segment_bytes, 1450u);
    EXPECT_EQ(segments(batches[0]).size(), 44u);
    EXPECT_EQ(segments(batches[0])[43].size(), 1450u);
  }
  for (size_t i = 0; i < count; ++i) buffers_.release(batches[i].buffer);
}

class UdpOnACable : public UdpRuns {};  // Loopback's MTU is larger than a datagram.

TEST_P(UdpOnACable, RefusesDatagramsAboveTheMtu) {
  const Endpoint to = rx_->local();
  for (const uint32_t datagrams : {1u, 3u}) {
    OwnedRun owned(1600, datagrams, 1600, 3);
    if (!GetParam().connected) owned.run.to = &to;
    const SendOutcome outcome = tx_->send(owned.run);
    EXPECT_EQ(outcome.failure, SendFailure::kTooBig) << outcome.error_number;
    EXPECT_EQ(outcome.datagrams, 0u);
    EXPECT_FALSE(outcome.would_block);
  }
  EXPECT_EQ(tx_->has_gso(), GetParam().gso) << "that says nothing about offload";
}

std::vector<World> worlds(bool veth) {
  std::vector<World> all;
  for (const Family family : {Family::kIpv4, Family::kIpv6}) {
    for (int bits = 0; bits < 8; ++bits) {
      all.push_back({family, (bits & 1) != 0, (bits & 2) != 0, veth, (bits & 4) != 0});
    }
  }
  return all;
}

std::string name_of_world(const testing::TestParamInfo<World>& info) {
  const World& w = info.param;
  return fmt::format("{}{}{}{}", name_of(w.family), w.gso ? "Gso" : "", w.gro ? "Gro" : "",
                     w.connected ? "Connected" : "");
}

INSTANTIATE_TEST_SUITE_P(Loopback, UdpRuns, testing::ValuesIn(worlds(false)), name_of_world);
INSTANTIATE_TEST_SUITE_P(Veth, UdpRuns, testing::ValuesIn(worlds(true)), name_of_world);
INSTANTIATE_TEST_SUITE_P(Veth, UdpOnACable, testing::ValuesIn(worlds(true)), name_of_world);

TEST(UdpSegments, SplitABatchByItsStride) {
  Bytes bytes(10);
  ReceivedBatch batch;
  batch.data = bytes.data();
  batch.bytes = 10;
  batch.segment_bytes = 4;
  std::vector<size_t> sizes;
  for (const auto segment : segments(batch)) sizes.push_back(segment.size());
  EXPECT_EQ(sizes, (std::vector<size_t>{4, 4, 2}));
  EXPECT_EQ(segments(batch).size(), 3u);
  EXPECT_EQ(segments(batch)[2].data(), bytes.data() + 8);
  batch.bytes = batch.segment_bytes = 0;
  EXPECT_EQ(segments(batch).size(), 0u);
  for ([[maybe_unused]] const auto segment : segments(batch)) ADD_FAILURE() << "an empty datagram";
}

TEST(UdpSegments, FitIntoOneBatch) {
  for (uint32_t bytes = 1; bytes <= kPayloadBytesMax; bytes += 7) {
    ASSERT_GE(segments_max(bytes), 1u);
    ASSERT_LE(segments_max(bytes) * bytes, kPayloadBytesMax);
  }
  EXPECT_EQ(segments_max(1472), 44u);
  EXPECT_EQ(segments_max(kPayloadBytesMax), 1u);
}

TEST(UdpSocket, FansOneBufferOutInOneSystemCall) {
  for (const bool gso : {true, false}) {
    UdpOptions options = on(Endpoint::loopback(Family::kIpv4, 0));
    options.gso = gso;
    UdpSocket tx = open_or_die(options);
    std::vector<UdpSocket> receivers;
    std::vector<Endpoint> addresses;
    for (int i = 0; i < 8; ++i) {
      receivers.push_back(on_loopback());
      addresses.push_back(receivers.back().local());
    }
    OwnedRun owned(1200, 20, 900, 11);
    std::vector<SendRun> runs(8, owned.run);
    for (size_t i = 0; i < runs.size(); ++i) runs[i].to = &addresses[i];
    const SendOutcome outcome = tx.send_many(runs);
    ASSERT_TRUE(outcome.complete());
    EXPECT_EQ(outcome.runs, 8u);
    EXPECT_EQ(outcome.datagrams, 160u);
    EXPECT_EQ(tx.system_calls(), gso ? 1u : 3u) << "160 messages at 64 a call without offload";
    ReceiveBuffers buffers(64);
    for (UdpSocket& receiver : receivers) {
      const auto arrived = collect(receiver, buffers, 20);
      ASSERT_EQ(arrived.size(), 20u);
      for (uint32_t i = 0; i < 20; ++i) ASSERT_EQ(arrived[i].bytes, owned.datagram(i));
    }
  }
}

TEST(UdpSocket, SendsMoreRunsThanOneCallTakes) {
  UdpSocket tx = on_loopback();
  UdpOptions options = on(Endpoint::loopback(Family::kIpv4, 0));
  UdpSocket rx = open_or_die(options);
  const Endpoint to = rx.local();
  OwnedRun owned(10, 2, 10, 12);
  owned.run.to = &to;
  const std::vector<SendRun> runs(kMessagesMax + 6, owned.run);
  const SendOutcome outcome = tx.send_many(runs);
  EXPECT_EQ(outcome.runs, runs.size());
  EXPECT_EQ(tx.system_calls(), 2u);
  ReceiveBuffers buffers(8);
  EXPECT_EQ(collect(rx, buffers, 2 * runs.size()).size(), 2 * runs.size());
}

TEST(UdpSocket, GoesOnAfterDatagramsThatWereSentBefore) {
  for (const bool gso : {true, false}) {
    UdpOptions options = on(Endpoint::loopback(Family::kIpv4, 0));
    options.gso = gso;
    UdpSocket tx = open_or_die(options);
    UdpSocket rx = on_loopback();
    const Endpoint to = rx.local();
    OwnedRun first(50, 10, 20, 13), second(60, 4, 60, 14);
    first.run.to = second.run.to = &to;
    first.run.skip = 7;
    const std::array<SendRun, 2> runs = {first.run, second.run};
    const SendOutcome outcome = tx.send_many(runs);
    EXPECT_TRUE(outcome.complete());
    EXPECT_EQ(outcome.runs, 2u);
    EXPECT_EQ(outcome.datagrams, 7u);
    ReceiveBuffers buffers(8);
    const auto arrived = collect(rx, buffers, 7);
    ASSERT_EQ(arrived.size(), 7u);
    EXPECT_EQ(arrived[0].bytes, first.datagram(7));
    EXPECT_EQ(arrived[2].bytes, first.datagram(9));
    EXPECT_EQ(arrived[3].bytes, second.datagram(0));
  }
}

TEST(UdpSocket, SaysThatItWouldBlockAndWhatWasTaken) {
  // A cable that all but stands still fills the send buffer. Without offload a run may be taken in
  // part; the rest goes with `skip` once the cable is fast, and all bytes arrive once, in order.
  std::string reason;
  const auto pair = NamespacePair::open(reason);
  if (pair == nullptr) GTEST_SKIP() << reason;
  const auto set_rate = [&](const char* rate) {
    return pair->in_a(fmt::format(
        "tc qdisc replace dev va root handle 1: tbf rate {} burst 64kb limit 8mb", rate));
  };
  if (!set_rate("8kbit")) GTEST_SKIP() << "needs tc with tbf";
  for (const bool gso : {true, false}) {
    ASSERT_TRUE(set_rate("8kbit"));
    std::optional<UdpSocket> tx, rx;
    UdpOptions options = on(*parse_endpoint("10.77.0.1:0"));
    options.gso = gso;
    options.send_buffer_bytes = 65536;  // Two runs or three: well below what the receiver holds.
    {
      const auto inside = pair->inside_a();
      tx = open_or_die(options);
    }
    {
      const auto inside = pair->inside_b();
      UdpOptions receive_options = on(*parse_endpoint("10.77.0.2:0"));
      receive_options.receive_buffer_bytes = 212992;
      rx = open_or_die(receive_options);
    }
    ASSERT_TRUE(tx->connect(rx->local()));
    OwnedRun owned(1400, 44, 1000, 15);
    uint32_t runs = 0;
    SendOutcome outcome;
    while ((outcome = tx->send(owned.run)).runs == 1) ASSERT_LT(++runs, 100u);
    ASSERT_TRUE(outcome.would_block);
    ASSERT_EQ(outcome.failure, SendFailure::kNone);
    EXPECT_TRUE(!gso || outcome.datagrams == 0) << "with offload a run goes whole or not at all";

    ASSERT_TRUE(set_rate("1gbit"));
    SendRun rest = owned.run;
    rest.skip = outcome.datagrams;
    while ((outcome = tx->send(rest)).runs == 0) {
      ASSERT_TRUE(outcome.would_block);
      rest.skip += outcome.datagrams;
      ASSERT_TRUE(wait_ready(tx->fd(), POLLOUT, monotonic_now() + 10s));
    }
    ++runs;
    ReceiveBuffers buffers(64);
    const auto arrived = collect(*rx, buffers, runs * 44);
    ASSERT_EQ(arrived.size(), runs * 44) << "dropped: " << rx->receive_drops();
    for (uint32_t i = 0; i < arrived.size(); ++i) {
      ASSERT_EQ(arrived[i].bytes, owned.datagram(i % 44)) << i;
    }
  }
}

TEST(UdpSocket, ReportsThatNobodyListens) {
  UdpSocket tx = on_loopback();
  Endpoint gone;
  {
    UdpSocket rx = on_loopback();
    gone = rx.local();
  }
  ASSERT_TRUE(tx.connect(gone));
  OwnedRun owned(10, 1, 10, 16);
  EXPECT_TRUE(tx.send(owned.run).complete()) << "the first datagram has yet to be answered";
  const SendOutcome outcome = tx.send(owned.run);
  EXPECT_EQ(outcome.failure, SendFailure::kRefused);
  EXPECT_EQ(outcome.error_number, ECONNREFUSED);
  EXPECT_EQ(outcome.runs, 0u);
  EXPECT_TRUE(tx.send(owned.run).complete()) << "the report was about the one before";
  ReceiveBuffers buffers(2);
  std::array<ReceivedBatch, 2> out;
  EXPECT_EQ(tx.receive(buffers, out), 0u) << "a refusal is no datagram";
  EXPECT_EQ(tx.refusals(), 1u);
  EXPECT_EQ(buffers.available(), 2u);
}

TEST(UdpSocket, ReportsThatThereIsNoRouteAndGoesOnAfterIt) {
  std::string reason;
  const auto pair = NamespacePair::open(reason);
  if (pair == nullptr) GTEST_SKIP() << reason;
  const auto inside = pair->inside_a();
  UdpSocket tx = open_or_die(on(Endpoint::any(Family::kIpv4, 0)));
  UdpSocket rx = on_loopback();
  const Endpoint good = rx.local(), bad = *parse_endpoint("192.0.2.1:9");
  OwnedRun owned(10, 3, 10, 17);
  std::array<SendRun, 3> runs = {owned.run, owned.run, owned.run};
  runs[0].to = runs[2].to = &good;
  runs[1].to = &bad;
  const SendOutcome outcome = tx.send_many(runs);
  EXPECT_EQ(outcome.failure, SendFailure::kUnreachable) << outcome.error_number;
  EXPECT_EQ(outcome.runs, 1u);
  EXPECT_EQ(outcome.datagrams, 3u);
  EXPECT_TRUE(tx.send(runs[2]).complete());
  ReceiveBuffers buffers(4);
  EXPECT_EQ(collect(rx, buffers, 6).size(), 6u);
  const auto connected = tx.connect(bad);
  ASSERT_FALSE(connected);
  EXPECT_EQ(connected.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(connected.error().what.find("no route"), std::string::npos);
}

TEST(UdpSocket, CutsDatagramsAboveTheMtuOnlyWhereThatIsAllowed) {
  std::string reason;
  const auto pair = NamespacePair::open(reason);
  if (pair == nullptr) GTEST_SKIP() << reason;
  std::optional<UdpSocket> tx, rx;
  {
    const auto inside = pair->inside_a();
    UdpOptions options = on(*parse_endpoint("10.77.0.1:0"));
    options.dont_fragment = false;
    tx = open_or_die(options);
  }
  {
    const auto inside = pair->inside_b();
    rx = open_or_die(on(*parse_endpoint("10.77.0.2:0")));
  }
  ASSERT_TRUE(tx->connect(rx->local()));
  // Offload takes no segment above the MTU; the run goes datagram by datagram instead.
  OwnedRun owned(2000, 3, 1999, 24);
  const std::array<SendRun, 2> runs = {owned.run, owned.run};
  const SendOutcome outcome = tx->send_many(runs);
  EXPECT_TRUE(outcome.complete()) << outcome.error_number;
  EXPECT_EQ(outcome.runs, 2u);
  ReceiveBuffers buffers(8);
  const auto arrived = collect(*rx, buffers, 6);
  ASSERT_EQ(arrived.size(), 6u);
  for (uint32_t i = 0; i < 6; ++i) EXPECT_EQ(arrived[i].bytes, owned.datagram(i % 3));
}

TEST(UdpSocket, CountsWhatTheKernelDropped) {
  UdpOptions options = on(Endpoint::loopback(Family::kIpv4, 0));
  options.receive_buffer_bytes = 4096;
  options.gro = false;
  UdpSocket rx = open_or_die(options);
  UdpSocket tx = on_loopback();
  ASSERT_TRUE(tx.connect(rx.local()));
  EXPECT_EQ(rx.receive_drops(), 0u);
  OwnedRun owned(1000, 1, 1000, 18);
  for (int i = 0; i < 50; ++i) ASSERT_TRUE(tx.send(owned.run).complete());
  ReceiveBuffers buffers(64);
  const size_t arrived = collect(rx, buffers, 50, 100ms).size();
  EXPECT_LT(arrived, 50u);
  EXPECT_EQ(rx.receive_drops(), 50u - arrived);
  EXPECT_EQ(rx.receive_drops(), 50u - arrived) << "reading it again does not count it again";
}

TEST(UdpSocket, TakesOnlyWhatItHasBuffersFor) {
  UdpSocket rx = on_loopback();
  UdpSocket tx = on_loopback();
  ASSERT_TRUE(tx.connect(rx.local()));
  OwnedRun owned(100, 1, 100, 19);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(tx.send(owned.run).complete());
  ReceiveBuffers buffers(2);
  std::array<ReceivedBatch, 8> out;
  ASSERT_EQ(rx.receive(buffers, out), 2u);
  EXPECT_EQ(buffers.available(), 0u);
  EXPECT_NE(out[0].buffer, out[1].buffer);
  EXPECT_EQ(rx.receive(buffers, std::span(out).subspan(2)), 0u);
  buffers.release(out[0].buffer);
  EXPECT_EQ(rx.receive(buffers, std::span(out).subspan(2)), 1u);
}

TEST(UdpSocket, DropsWhatIsLongerThanABufferAndKeepsTheRest) {
  UdpSocket rx = on_loopback();
  UdpSocket tx = on_loopback();
  ASSERT_TRUE(tx.connect(rx.local()));
  OwnedRun small_a(100, 1, 100, 20), large(500, 1, 500, 21), small_b(200, 1, 200, 22);
  for (const OwnedRun* run : {&small_a, &large, &small_b}) {
    ASSERT_TRUE(tx.send(run->run).complete());
  }
  ReceiveBuffers buffers(6, 256);
  std::array<ReceivedBatch, 6> out;
  ASSERT_EQ(rx.receive(buffers, out), 2u);
  EXPECT_EQ(rx.truncated(), 1u);
  EXPECT_EQ(out[0].bytes, 100u);
  EXPECT_EQ(out[1].bytes, 200u);
  EXPECT_EQ(out[1].from, tx.local());
  EXPECT_EQ(out[1].data, buffers.data(out[1].buffer));
  EXPECT_EQ(Bytes(out[1].data, out[1].data + 200), small_b.bytes);
  EXPECT_EQ(buffers.available(), 4u);
}

TEST(UdpSocket, ServesBothFamiliesWhenDualStack) {
  UdpOptions options = on(Endpoint::any(Family::kIpv6, 0));
  options.dual_stack = true;
  UdpSocket server = open_or_die(options);
  UdpSocket v4 = on_loopback(Family::kIpv4), v6 = on_loopback(Family::kIpv6);
  const Endpoint to_v4 = Endpoint::loopback(Family::kIpv4, server.local().port());
  const Endpoint to_v6 = Endpoint::loopback(Family::kIpv6, server.local().port());
  OwnedRun owned(700, 5, 70, 23);
  owned.run.to = &to_v4;
  ASSERT_TRUE(v4.send(owned.run).complete());
  owned.run.to = &to_v6;
  ASSERT_TRUE(v6.send(owned.run).complete());
  ReceiveBuffers buffers(16);
  const auto arrived = collect(server, buffers, 10);
  ASSERT_EQ(arrived.size(), 10u);
  EXPECT_EQ(arrived[0].from.unmapped(), v4.local());
  EXPECT_EQ(arrived[5].from.unmapped(), v6.local());
  const Endpoint back = v4.local().mapped();
  owned.run.to = &back;
  ASSERT_TRUE(server.send(owned.run).complete()) << "batches go to mapped addresses, too";
  EXPECT_EQ(collect(v4, buffers, 5).size(), 5u);
}

TEST(UdpSocket, NamesTheProcessThatHoldsAPort) {
  UdpSocket first = open_or_die(on(Endpoint::any(Family::kIpv4, 0)));
  const auto second = UdpSocket::open(on(first.local()));
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(second.error().what.find(fmt::format("address {} is already in use by pid {} (",
                                                 first.local().text(), ::getpid())),
            std::string::npos)
      << second.error().what;
  EXPECT_NE(second.error().what.find("choose another with --listen"), std::string::npos);
}

TEST(UdpSocket, SharesAPortOnlyWhenBothAsk) {
  UdpOptions options = on(Endpoint::loopback(Family::kIpv4, 0));
  options.reuse_port = true;
  UdpSocket first = open_or_die(options);
  options.local = first.local();
  EXPECT_TRUE(UdpSocket::open(options));
  options.reuse_port = false;
  EXPECT_FALSE(UdpSocket::open(options));
}

TEST(UdpSocket, RefusesAForeignOrMissingAddress) {
  const auto foreign = UdpSocket::open(on(*parse_endpoint("203.0.113.9:0")));
  ASSERT_FALSE(foreign);
  EXPECT_EQ(foreign.error().what, "203.0.113.9 is not an address of this host");
  EXPECT_EQ(UdpSocket::open(UdpOptions{}).error().code, ErrorCode::kInvalidArgument);
}

TEST(ReceiveBufferAdvice, SpeaksOnlyWhenTheKernelGaveLess) {
  EXPECT_FALSE(receive_buffer_advice(100000, 200000));
  const auto advice = receive_buffer_advice(8388608, 425984);
  ASSERT_TRUE(advice);
  EXPECT_NE(advice->find("sysctl -w net.core.rmem_max=8388608"), std::string::npos);
  EXPECT_NE(advice->find("grants 212992"), std::string::npos);
  UdpOptions options = on(Endpoint::loopback(Family::kIpv4, 0));
  options.receive_buffer_bytes = 100000;
  UdpSocket socket = open_or_die(options);
  EXPECT_FALSE(receive_buffer_advice(100000, socket.receive_buffer_bytes()));
}

}  // namespace
}  // namespace sumcast::net
