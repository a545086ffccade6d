// A peer that breaks the protocol in frames that are well formed: it is cut off, and does no harm
// to those who read them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "job.h"
#include "net/descriptor.h"
#include "ps/control.h"
#include "ps/link.h"

namespace pstest {
namespace {

using sumcast::ps::ControlMessage;
using sumcast::ps::FrameHeader;
using sumcast::ps::FrameKind;
using sumcast::ps::header_of;
using sumcast::ps::Link;
using sumcast::ps::Loan;
using testing::HasSubstr;
using testing::Not;
using namespace std::chrono_literals;

namespace net = sumcast::net;

/// A connection of the test itself, as a node of a job without a key.
class Intruder {
 public:
  explicit Intruder(int port) {
    const auto deadline = net::monotonic_now() + 10s;
    auto remote = net::Endpoint::loopback(net::Family::kIpv4, static_cast<uint16_t>(port));
    auto connection = net::connect_tcp(remote, std::nullopt, deadline);
    while (!connection && net::monotonic_now() < deadline) {
      std::this_thread::sleep_for(10ms);  // The scheduler does not listen yet.
      connection = net::connect_tcp(remote, std::nullopt, deadline);
    }
    link_.emplace(std::move(connection.value()), nullptr, sumcast::auth::Side::kClient, true);
    sumcast::ps::Preface other;
    const auto mine = std::as_bytes(std::span(&link_->preface(), 1));
    EXPECT_TRUE(link_->connection().send_all(mine, deadline));
    const auto theirs = std::as_writable_bytes(std::span(&other, 1));
    EXPECT_TRUE(link_->connection().receive_all(theirs, deadline));
    EXPECT_TRUE(link_->on_preface(other));
  }

  void say(const ControlMessage& message) {
    const std::string text = to_text(message);
    FrameHeader header;
    header.kind = FrameKind::kControl;
    header.body_bytes = static_cast<uint32_t>(text.size());
    header.payload_bytes = sumcast::ps::padded(text.size());
    link_->send(header, {}, {}, text);
    link_->write();
  }
  void hello(int node) {
    ControlMessage hello;
    hello.kind = "hello";
    hello.node = node;
    hello.epoch = 1;
    hello.dare = link_->dare;
    say(hello);
  }
  void send(FrameKind kind, const ps::Message& message) {
    FrameHeader header = header_of(message);
    header.kind = kind;
    link_->send(header, message.data, message.meta.data_type, message.meta.body);
    link_->write();
  }
  void send_raw(const std::string& bytes) {
    const auto deadline = net::monotonic_now() + 10s;
    EXPECT_TRUE(link_->connection().send_all(std::as_bytes(std::span(bytes)), deadline));
  }
  void close() { link_.reset(); }
  /// Reads until a control message of this kind comes; others tell where their dares stand.
  ControlMessage await(const std::string& kind) {
    std::optional<ControlMessage> found;
    const auto deadline = net::monotonic_now() + 10s;
    while (!found && net::wait_ready(link_->fd(), POLLIN, deadline)) {
      const auto verdict = link_->read(1 << 20, [&](const FrameHeader& header, auto frame, auto) {
        if (header.kind != FrameKind::kControl) return true;
        const auto message = sumcast::ps::parse_control(*read_text(header, frame));
        if (message->kind == kind) found = *message;
        if (message->kind == "hello" && message->dare != 0) show(message->dare);
        return true;
      });
      if (verdict != sumcast::ps::LinkVerdict::kOpen) break;
    }
    EXPECT_TRUE(found) << "no " << kind << ": " << link_->ended_text();
    return found.value_or(ControlMessage());
  }

 private:
  void show(uint64_t dare) {
    link_->shown = link_->answer_to(dare, true);
    ControlMessage here;
    here.kind = "here";
    here.pid = ::getpid();
    here.address = reinterpret_cast<uint64_t>(&link_->shown);
    say(here);
  }

  std::optional<Link> link_;
};

/// A scheduler and servers that are real, in a job with replicas; all others are intruders.
class Intruders : public testing::Test {
 protected:
  /// @param others  of the two servers, how many are none of ours.
  void start(int others, const std::string& name = "idle") {
    job_.emplace(2, 1, Environment{"SUMCAST_PS_REPLICAS=1", "PS_HEARTBEAT_TIMEOUT=60s"});
    const std::vector<std::string> command = {program("takeover"), name};
    job_->add("scheduler", command);
    for (int i = others; i < 2; ++i) job_->add("server", command);
    if (others > 0) server_ = join(ps::Node::SERVER);
    worker_ = join(ps::Node::WORKER);
    all_ = worker_->await("nodes");
    ASSERT_EQ(all_.nodes.size(), 3u);
    // Start ends with a barrier of all.
    for (Intruder* const one : {server_.get(), worker_.get()}) {
      if (one != nullptr) one->say(arrival(7));
    }
    worker_->await("pass");
  }
  static ControlMessage arrival(int group) {
    ControlMessage arrive;
    arrive.kind = "arrive";
    arrive.group = group;
    arrive.token = 1;
    return arrive;
  }

  std::unique_ptr<Intruder> join(ps::Node::Role role) {
    auto intruder = std::make_unique<Intruder>(job_->port());
    intruder->hello(-1);
    ControlMessage add;
    add.kind = "add";
    add.replicas = 1;
    add.nodes.resize(1);
    add.nodes[0].role = role;
    add.nodes[0].hostname = "127.0.0.1";
    // The lowest: the first of its role. Nobody connects to it.
    add.nodes[0].port = role == ps::Node::SERVER ? 1 : 2;
    intruder->say(add);
    return intruder;
  }

  /// A connection to a server, as the node `me`.
  std::unique_ptr<Intruder> reach(int server, int me) {
    for (const ps::Node& node : all_.nodes) {
      if (node.id != server) continue;
      auto intruder = std::make_unique<Intruder>(node.port);
      intruder->hello(me);
      return intruder;
    }
    ADD_FAILURE() << "no server " << server;
    return nullptr;
  }

  /// The processes of the job that have cut somebody off; what they wrote.
  std::string reports() const {
    std::string all;
    for (size_t i = 0; i < job_->size(); ++i) {
      const std::string output = job_->output(i);
      if (output.find("broke the protocol") != std::string::npos) all += output;
    }
    return all;
  }
  /// Waits until one of them has written this, too; false after 10 s.
  bool await_report(const std::string& text) const {
    for (int i = 0; i < 1000; ++i) {
      if (reports().find(text) != std::string::npos) return true;
      std::this_thread::sleep_for(10ms);
    }
    return false;
  }

  static ps::Message push(int number) {
    ps::Message message;
    message.meta.request = message.meta.push = true;
    message.meta.app_id = message.meta.customer_id = 0;
    message.meta.timestamp = number;
    message.meta.sender = kWorker;
    ps::SArray<ps::Key> keys(1, 5);
    ps::SArray<double> values(1, 1);
    message.AddData(keys);
    message.AddData(values);
    return message;
  }

  static constexpr int kServer0 = 8, kWorker = 9, kServer1 = 10;
  std::optional<Job> job_;
  std::unique_ptr<Intruder> server_, worker_;
  ControlMessage all_;
};

TEST_F(Intruders, ASuspicionOfANodeThatThereIsNot) {
  start(0);
  ControlMessage suspect;
  suspect.kind = "suspect";
  suspect.node = 100008;
  suspect.why = "made up";
  worker_->say(suspect);
  EXPECT_TRUE(job_->saw(0, "broke the protocol"));
  EXPECT_THAT(job_->output(0), Not(HasSubstr("100008")));
}

/// Its farewell may have been lost behind what it did not read: the scheduler had it.
TEST_F(Intruders, ASuspicionOfWhoHasLeftIsAnswered) {
  start(0, "leave");
  const auto to_server = reach(kServer1, kWorker);
  to_server->send(FrameKind::kData, push(1));
  to_server->await("bye");
  to_server->close();
  for (const size_t i : {1u, 2u}) {
    if (job_->output(i).find("leaves") != std::string::npos) {
      EXPECT_EQ(job_->wait(i), 0);
    }
  }
  ControlMessage suspect;
  suspect.kind = "suspect";
  suspect.node = kServer1;
  worker_->say(suspect);
  EXPECT_EQ(worker_->await("left").node, kServer1);
}

TEST_F(Intruders, ABarrierOfOthers) {
  start(0);
  worker_->say(arrival(ps::kServerGroup));
  EXPECT_TRUE(job_->saw(0, "broke the protocol"));
}

/// Such numbers are a server's own, for what another server's log brings.
TEST_F(Intruders, ARequestWithANumberBelowZero) {
  start(0);
  const auto to_server = reach(kServer0, kWorker);
  to_server->send(FrameKind::kData, push(-1));
  EXPECT_TRUE(await_report("worker 0 (id 9) has died"));
}

TEST_F(Intruders, ALogOfWhatIsNoRequest) {
  start(1);
  const auto to_server = reach(kServer1, kServer0);
  ps::Message message = push(1);
  message.meta.request = false;
  to_server->send(FrameKind::kLog, message);
  EXPECT_TRUE(await_report("broke the protocol"));
}

TEST_F(Intruders, ALoanOfMoreThanAnyMemoryHolds) {
  if (kIsSanitized) GTEST_SKIP() << "the address sanitizer ends who asks for so much";
  start(0);
  const auto to_server = reach(kServer0, kWorker);
  to_server->await("lend");
  ps::Message message = push(1);
  const Loan loan{8, uint64_t{1} << 45, 1};
  ps::SArray<char> stand_in;
  stand_in.CopyFrom(reinterpret_cast<const char*>(&loan), sizeof loan);
  FrameHeader header = header_of(message);
  header.payload_bytes += sizeof loan - 8;
  std::string frame(reinterpret_cast<const char*>(&header), sizeof header);
  for (const uint64_t word : {sumcast::ps::table_word(ps::UINT64, 8),
                              sumcast::ps::table_word(ps::DOUBLE, sizeof loan, true)}) {
    frame.append(reinterpret_cast<const char*>(&word), sizeof word);
  }
  frame.append(message.data[0].data(), 8).append(stand_in.data(), sizeof loan);
  to_server->send_raw(frame);
  EXPECT_TRUE(await_report("worker 0 (id 9) has died"));
}

}  // namespace
}  // namespace pstest
