// Who repeats what where notes cross the datagrams that they are about (P6): a shard, and a worker,
// against a peer that the test plays datagram by datagram.
#include <gtest/gtest.h>

#include <thread>

#include "collective/engine.h"
#include "runtime/clock.h"
#include "wire/descriptor.h"

namespace sumcast::collective {
namespace {

using wire::Header;
using wire::Kind;

struct Seen {
  Header header;
  std::vector<std::byte> payload;
  net::Endpoint from;
};

/// One end of the protocol, without tags, that says what it is told to.
class Puppet {
 public:
  explicit Puppet(uint16_t sender) : signer_(sender, std::nullopt), socket_(open()) {
    EXPECT_TRUE(poller_.add(socket_.fd(), 0).has_value());
  }

  const net::Endpoint& at() const { return socket_.local(); }
  uint32_t counter() const { return counter_; }

  void say(const net::Endpoint& to, Header header, std::span<const std::byte> payload) {
    std::vector<std::byte> bytes(wire::kHeaderBytes + payload.size());
    header.incarnation = kIncarnation.value;
    header.epoch = 1;
    counter_ = signer_.seal(header, payload, bytes.data(), nullptr);
    std::ranges::copy(payload, bytes.begin() + wire::kHeaderBytes);
    const iovec part{bytes.data(), bytes.size()};
    EXPECT_TRUE(socket_.send(net::SendRun::single(&to, part)).complete());
  }
  /// @param heard  counter of the newest datagram that this end claims to have had.
  void note(const net::Endpoint& to, Kind kind, wire::Note note, uint32_t heard,
            Asking asking = Asking::kSendAgain) {
    Header header;
    header.kind = kind;
    header.total_or_next = heard;
    header.chunk = static_cast<uint32_t>(asking);
    std::array<std::byte, wire::kNoteBytes> bytes;
    wire::write_note(note, bytes.data());
    say(to, header, bytes);
  }

  /// All that has come, oldest first; waits for the first one.
  std::vector<Seen> read(Duration patience) {
    std::array<net::Event, 4> events;
    std::array<net::ReceivedBatch, 8> batches;
    std::vector<Seen> all;
    poller_.wait(events, patience);
    for (size_t count; (count = socket_.receive(buffers_, batches)) > 0;) {
      for (const auto& batch : std::span(batches).first(count)) {
        for (const auto datagram : net::segments(batch)) {
          Seen seen;
          EXPECT_EQ(wire::parse(datagram, seen.header), wire::ParseError::kNone);
          const auto payload = datagram.subspan(wire::kHeaderBytes);
          seen.payload.assign(payload.begin(), payload.end());
          seen.from = batch.from;
          all.push_back(std::move(seen));
        }
        buffers_.release(batch.buffer);
      }
    }
    return all;
  }
  /// The next datagram of this kind; others are dropped.
  Seen wait_for(Kind kind) {
    const Instant deadline = runtime::monotonic_now() + 10s;
    while (runtime::monotonic_now() < deadline) {
      for (Seen& seen : read(100ms)) {
        if (seen.header.kind == kind) return std::move(seen);
      }
    }
    ADD_FAILURE() << "no datagram of kind " << static_cast<int>(kind);
    return {};
  }

  static constexpr Incarnation kIncarnation{4711};

 private:
  static net::UdpSocket open() {
    net::UdpOptions options;
    options.local = net::Endpoint::loopback(net::Family::kIpv4, 0);
    return std::move(*net::UdpSocket::open(options));
  }

  Signer signer_;
  uint32_t counter_ = 0;
  net::UdpSocket socket_;
  net::Poller poller_ = std::move(*net::Poller::create());
  net::ReceiveBuffers buffers_{16};
};

control::JobPlan plan_of_two() {
  control::JobPlan plan;
  plan.incarnation = Puppet::kIncarnation;
  plan.epoch = Epoch(1);
  plan.name = "crossing";
  plan.slots = 8;
  for (uint16_t i = 0; i < 2; ++i) {
    control::Member member;
    member.rank = Rank(i);
    member.shard = net::Endpoint::loopback(net::Family::kIpv4, static_cast<uint16_t>(9 + i)).text();
    plan.members.push_back(member);
  }
  return plan;
}

control::GroupPlan group_of_two(uint32_t datagram_bytes) {
  control::GroupPlan group;
  group.incarnation = Puppet::kIncarnation;
  group.group = GroupId(0);
  group.slot_base = SlotIndex(0);
  group.slot_count = 8;
  group.payload_bytes = datagram_bytes;
  group.ranks = {Rank(0), Rank(1)};
  return group;
}

std::vector<Seen> of_kind(const std::vector<Seen>& all, Kind kind) {
  std::vector<Seen> some;
  for (const Seen& seen : all) {
    if (seen.header.kind == kind) some.push_back(seen);
  }
  return some;
}

/// A shard and two workers that the test plays. On loopback what was sent has arrived.
class ShardAndPuppets : public testing::Test {
 protected:
  ShardAndPuppets() {
    ShardHostOptions options;
    options.listen = net::Endpoint::loopback(net::Family::kIpv4, 0);
    options.multicast = false;
    host_ = std::move(*ShardHost::open(options, poller_, 0));
    host_->start_job(plan_of_two(), std::nullopt);
    host_->open_group(group_of_two(kDatagramBytesDefault));
    for (Puppet* worker : {&a_, &b_}) {
      std::array<std::byte, 8> no_cookie{};
      Header hello;
      hello.kind = Kind::kHello;
      worker->say(host_->endpoint(), hello, no_cookie);
      serve();
      const std::vector<Seen> challenge = of_kind(worker->read(0s), Kind::kChallenge);
      EXPECT_EQ(challenge.size(), 1u);
      if (challenge.empty()) return;
      worker->say(host_->endpoint(), hello, challenge[0].payload);
      serve();
      EXPECT_EQ(of_kind(worker->read(0s), Kind::kHelloAck).size(), 1u);
    }
  }

  void serve() {
    std::array<net::Event, 4> events;
    const Instant now = runtime::monotonic_now();
    while (poller_.wait(events, 0s) > 0) host_->receive(0, now);
    host_->flush(now);
  }
  void contribute(Puppet& worker) {
    Header header;
    header.kind = Kind::kContribution;
    header.digest = kDigest;
    header.total_or_next = 1;
    const std::array<float, 2> lanes = {1, 2};
    worker.say(host_->endpoint(), header, std::as_bytes(std::span(lanes)));
    serve();
  }
  void probe(Puppet& worker, uint32_t heard) {
    worker.note(host_->endpoint(), Kind::kProbe, {0, 0, kDigest}, heard);
    serve();
  }

  static constexpr uint32_t kDigest = 0x12345601;
  net::Poller poller_ = std::move(*net::Poller::create());
  std::unique_ptr<ShardHost> host_;
  Puppet a_{0}, b_{1};
};

TEST_F(ShardAndPuppets, AnAskSaysHowFarTheShardHasHeardTheWorker) {
  contribute(a_);
  probe(a_, 0);
  const std::vector<Seen> asks = of_kind(b_.read(0s), Kind::kAsk);
  ASSERT_EQ(asks.size(), 1u);
  EXPECT_EQ(asks[0].header.total_or_next, b_.counter());
  EXPECT_EQ(asks[0].header.chunk, static_cast<uint32_t>(Asking::kSendAgain));
}

TEST_F(ShardAndPuppets, AProbeThatCrossesItsResultIsToldSoAndNotAnsweredWithIt) {
  contribute(a_);
  contribute(b_);
  const std::vector<Seen> results = of_kind(a_.read(0s), Kind::kResult);
  ASSERT_EQ(results.size(), 1u);

  probe(a_, results[0].header.counter - 1);
  const std::vector<Seen> told = a_.read(0s);
  ASSERT_EQ(told.size(), 1u);
  ASSERT_EQ(told[0].header.kind, Kind::kAsk);
  EXPECT_EQ(told[0].header.chunk, static_cast<uint32_t>(Asking::kHasLeft));
  ASSERT_EQ(told[0].payload.size(), wire::kNoteBytes);
  const wire::Note note = wire::read_note(told[0].payload.data());
  EXPECT_EQ(note.slot, 0);
  EXPECT_EQ(note.phase_or_number, 0u);
  EXPECT_EQ(note.digest, kDigest);
  EXPECT_EQ(host_->counters()[ShardWork::kToldOnly], 1u);
  EXPECT_EQ(host_->counters()[ShardWork::kRepairs], 0u);

  // It has heard that, and still has no result.
  probe(a_, told[0].header.counter);
  const std::vector<Seen> again = a_.read(0s);
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again[0].header.kind, Kind::kResult);
  EXPECT_EQ(again[0].header.counter, results[0].header.counter) << "unchanged (P5)";
  EXPECT_EQ(again[0].payload, results[0].payload);
  EXPECT_EQ(host_->counters()[ShardWork::kRepairs], 1u);
}

/// A worker, and a shard that the test plays.
class WorkerAndPuppet : public testing::Test {
 protected:
  WorkerAndPuppet() {
    EngineOptions options;
    options.local = net::Endpoint::loopback(net::Family::kIpv4, 0);
    options.multicast = false;
    engine_ = std::move(*Engine::create(std::move(options)));
    std::atomic<bool> started{false};
    std::thread starting([&] {
      const std::array<net::Endpoint, 1> shards = {shard_.at()};
      const auto done = engine_->start(plan_of_two(), Rank(0), shards, true, false,
                                       runtime::monotonic_now() + 10s);
      EXPECT_TRUE(done.has_value()) << done.error().what;
      started = true;
    });
    while (!started) {
      for (const Seen& hello : of_kind(shard_.read(5ms), Kind::kHello)) answer(hello);
    }
    starting.join();
    engine_->open_group(group_of_two(engine_->datagram_bytes()));
    wire::OperationDescriptor what;
    what.count = lanes_.size();
    operation_ = *engine_->submit(GroupId(0), Route::kAggregator, what, lanes_.data(), sum_.data());
    contribution_ = shard_.wait_for(Kind::kContribution);
  }

  void answer(const Seen& hello) {
    Header header;
    const bool has_cookie = hello.payload[0] != std::byte{0};
    header.kind = has_cookie ? Kind::kHelloAck : Kind::kChallenge;
    header.total_or_next = static_cast<uint32_t>(wire::kHeaderBytes + hello.payload.size());
    header.chunk = 212992;
    const std::vector<std::byte> body(has_cookie ? hello.payload.size() : 8, std::byte{1});
    shard_.say(hello.from, header, body);
  }
  void ask(uint32_t heard, Asking asking) {
    const Header& sent = contribution_.header;
    shard_.note(contribution_.from, Kind::kAsk, {sent.slot, sent.phase, sent.digest}, heard,
                asking);
  }
  void finish() {
    Header header = contribution_.header;
    header.kind = Kind::kResult;
    shard_.say(contribution_.from, header, contribution_.payload);
    ASSERT_TRUE(engine_->wait(*operation_, runtime::monotonic_now() + 10s));
  }
  EngineCounters counters_when(auto enough) {
    const Instant deadline = runtime::monotonic_now() + 10s;
    while (!enough(engine_->counters()) && runtime::monotonic_now() < deadline) shard_.read(1ms);
    EXPECT_TRUE(enough(engine_->counters()));
    return engine_->counters();
  }

  Puppet shard_{wire::kShardBit};
  std::unique_ptr<Engine> engine_;
  std::vector<float> lanes_ = {1, 2, 3}, sum_ = {0, 0, 0};
  OperationPtr operation_;
  Seen contribution_;
};

TEST_F(WorkerAndPuppet, IgnoresAnAskThatLeftBeforeItsContributionWasHeard) {
  ask(contribution_.header.counter - 1, Asking::kSendAgain);
  const EngineCounters crossed = counters_when([](const auto& c) { return c.asks == 1; });
  EXPECT_EQ(crossed.asks_crossed, 1u);
  EXPECT_EQ(crossed.repeats, 0u);
  ask(contribution_.header.counter, Asking::kSendAgain);
  const Seen again = shard_.wait_for(Kind::kContribution);
  EXPECT_EQ(again.payload, contribution_.payload);
  // The repeat is on its way now, whatever the shard had heard before.
  ask(contribution_.header.counter, Asking::kSendAgain);
  const EngineCounters repeated = counters_when([](const auto& c) { return c.asks == 3; });
  EXPECT_EQ(repeated.asks_crossed, 2u);
  EXPECT_EQ(repeated.repeats, 1u);
  finish();
}

TEST_F(WorkerAndPuppet, ProbesAgainForAResultThatHasLeftAndIsNotThere) {
  ask(0, Asking::kHasLeft);
  const EngineCounters told = counters_when([](const auto& c) { return c.told == 1; });
  EXPECT_EQ(told.probes_again, 1u);
  EXPECT_EQ(told.repeats, 0u);
  finish();
  ask(0, Asking::kHasLeft);  // Of a slot that is done: overtaken by events.
  wire::OperationDescriptor what;
  what.count = lanes_.size();
  ASSERT_TRUE(engine_->submit(GroupId(0), Route::kAggregator, what, lanes_.data(), sum_.data()));
  EXPECT_EQ(counters_when([](const auto& c) { return c.told == 2; }).probes_again, 1u);
  EXPECT_EQ(sum_, lanes_);
}

TEST_F(WorkerAndPuppet, AProbeSaysHowFarTheWorkerHasHeardTheShard) {
  EXPECT_EQ(shard_.wait_for(Kind::kProbe).header.total_or_next, shard_.counter());
  finish();
}

}  // namespace
}  // namespace sumcast::collective
