#include "daemon/shard_thread.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cfenv>

#include "net/udp.h"
#include "runtime/clock.h"

namespace sumcast::daemon {
namespace {

using collective::ShardCount;

ShardThreadOptions on_loopback() {
  ShardThreadOptions options;
  options.listen = net::Endpoint::loopback(net::Family::kIpv4, 0);
  return options;
}

void send(const net::Endpoint& to, const std::string& text) {
  net::UdpOptions options;
  options.local = net::Endpoint::loopback(net::Family::kIpv4, 0);
  auto socket = net::UdpSocket::open(options).value();
  std::string bytes = text;
  const iovec part{bytes.data(), bytes.size()};
  ASSERT_TRUE(socket.send(net::SendRun::single(&to, part)).complete());
}

TEST(ShardThread, CountsWhatItReceivesAndPublishesItUnasked) {
  const auto thread = ShardThread::start(on_loopback()).value();
  send(thread->endpoint(), "this is no datagram of ours");
  ShardThreadReport report;
  for (int i = 0; i < 1000 && report.shard[ShardCount::kReceived] == 0; ++i) {
    std::this_thread::sleep_for(10ms);
    report = thread->report();
  }
  EXPECT_EQ(report.shard[ShardCount::kReceived], 1u);
  EXPECT_EQ(report.shard[ShardCount::kMalformed], 1u);
  EXPECT_GT(report.cycles, 0u);
  EXPECT_GT(report.cpu, 0ns);
}

TEST(ShardThread, DoesCommandsInOrderAndSaysWhenTheyAreDone) {
  const auto thread = ShardThread::start(on_loopback()).value();
  control::JobPlan job;
  job.incarnation = Incarnation(7);
  job.members.resize(2);
  job.slots = 16;
  control::GroupPlan group;
  group.incarnation = job.incarnation;
  group.ranks = {Rank(0), Rank(1)};
  group.slot_count = 4;
  group.payload_bytes = 1472;
  const Instant deadline = runtime::monotonic_now() + 20s;
  // A group's slots are asserted to lie within its job's, so a wrong order would not pass.
  (void)thread->start_job(job, auth::random_key());
  const auto opened = thread->open_group(group);
  (void)thread->close_group(job.incarnation, group.group);
  const auto ended = thread->end_job(job.incarnation);
  EXPECT_LT(opened, ended);
  EXPECT_TRUE(thread->wait_until_done(ended, deadline));
  EXPECT_TRUE(thread->wait_until_done(opened, runtime::monotonic_now()));
  EXPECT_FALSE(thread->wait_until_done(ended + 1, runtime::monotonic_now() + 1ms));
}

TEST(ShardThread, TwoCannotShareAPort) {
  const auto first = ShardThread::start(on_loopback()).value();
  ShardThreadOptions options = on_loopback();
  options.listen = first->endpoint();
  const auto second = ShardThread::start(options);
  ASSERT_FALSE(second.has_value());
  EXPECT_EQ(second.error().code, ErrorCode::kUnavailable);
}

TEST(ShardThread, SaysHowToAllowTheBufferThatItWanted) {
  ShardThreadOptions options = on_loopback();
  options.socket_buffer_bytes = 1 << 30;
  const auto thread = ShardThread::start(options).value();
  ASSERT_TRUE(thread->buffer_advice().has_value());
  EXPECT_THAT(*thread->buffer_advice(), testing::HasSubstr("net.core.rmem_max=1073741824"));
}

TEST(ShardThread, RefusesToSumWithAnotherRounding) {
  std::fesetround(FE_UPWARD);  // The thread inherits it.
  const auto thread = ShardThread::start(on_loopback());
  std::fesetround(FE_TONEAREST);
  ASSERT_FALSE(thread.has_value());
  EXPECT_EQ(thread.error().code, ErrorCode::kUnsupported);
}

}  // namespace
}  // namespace sumcast::daemon
