// Server and clients over loopback, in threads: what the pure coordinator decides must arrive.
#include "control/server.h"

#include <poll.h>
#include <sys/socket.h>

#include <filesystem>
#include <future>

#include "control/client_join.h"
#include "control/frames.h"
#include "control/test_cluster.h"
#include "net/descriptor.h"
#include "runtime/clock.h"

namespace sumcast::control {
namespace {

TEST(Control, JoinOpenCloseLeave) {
  Cluster cluster;
  cluster.join_all(3);
  EXPECT_EQ(cluster.jobs.started, 1);
  EXPECT_EQ(cluster.client(2).welcome().members.at(1).name, "host-1:77");
  EXPECT_EQ(cluster.client(2).welcome().members.at(1).address, "127.0.0.1");
  const GroupPlan plan = cluster.open_world();
  EXPECT_EQ(plan.group, GroupId(0));
  EXPECT_EQ(plan.incarnation, cluster.client(1).welcome().incarnation);
  EXPECT_EQ(cluster.jobs.opened, 1);
  const auto status = cluster.server->status_json();
  EXPECT_EQ(status["jobs"][0]["name"], "x");
  EXPECT_EQ(status["jobs"][0]["ranks"][2]["state"], "live");
  EXPECT_EQ(status["jobs"][0]["groups"][0]["key"], "world");
  Cluster::each(3, [&](int r) {
    cluster.client(r).close_group(plan.group);
    EXPECT_TRUE(cluster.client(r).leave(10s));
  });
  EXPECT_TRUE(eventually([&] { return cluster.jobs.ended == 1; }));
  EXPECT_EQ(cluster.jobs.closed, 1);
  EXPECT_EQ(cluster.counter("deaths"), 0u);
}

TEST(Control, AWorkerMayComeBeforeItsCoordinator) {
  net::Endpoint endpoint;
  {
    const auto listener = net::TcpListener::open(loopback());
    endpoint = listener->local();
  }
  Jobs jobs;
  Observer observer;
  std::unique_ptr<CoordinatorServer> server;
  std::thread late([&] {
    std::this_thread::sleep_for(100ms);
    ServerOptions options;
    options.listen = endpoint;
    server = CoordinatorServer::start(options, jobs).value();
  });
  JoinOptions options;
  options.coordinator = endpoint;
  options.join = Join{"x", Rank(0), 1, "h", "n", "", "", "", milliseconds(20'000)};
  const auto client = ControlClient::join(options, observer);
  late.join();
  EXPECT_TRUE(client.has_value()) << client.error().what;
}

TEST(Control, NobodyThereIsAnErrorAtTheDeadline) {
  JoinOptions options;
  {
    const auto listener = net::TcpListener::open(loopback());
    options.coordinator = listener->local();
  }
  options.join = Join{"x", Rank(0), 1, "h", "n", "", "", "", milliseconds(200)};
  Observer observer;
  const auto client = ControlClient::join(options, observer);
  ASSERT_FALSE(client.has_value());
  EXPECT_EQ(client.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(client.error().what.find("refused the connection"), std::string::npos);
}

TEST(Control, NoShowsAreNamedAtTheDeadline) {
  Cluster cluster;
  Cluster::each(2, [&](int r) {
    Observer observer;
    const auto client = ControlClient::join(cluster.options(r, 4, 300ms), observer);
    ASSERT_FALSE(client.has_value());
    EXPECT_EQ(client.error().code, ErrorCode::kTimeout);
    EXPECT_TRUE(client.error().what.starts_with(
        "waiting for 2 of 4 workers: ranks 2 and 3 never joined job \"x\" at " + cluster.where()))
        << client.error().what;
  });
}

TEST(Control, ARankThatVanishesAbortsTheOthers) {
  Cluster cluster;
  cluster.join_all(3);
  cluster.open_world();
  cluster.clients[1].reset();
  for (const int r : {0, 2}) {
    const Observer::Seen abort = cluster.observer(r).abort();
    EXPECT_EQ(abort.group, GroupId(0));
    EXPECT_EQ(abort.error.what,
              "rank 1 (host-1:77 at 127.0.0.1) died: connection closed; it had posted no "
              "operation yet");
    EXPECT_EQ(abort.ranks, std::vector<Rank>{Rank(1)});
    EXPECT_EQ(cluster.client(r).abort_of(GroupId(0)).value().what, abort.error.what);
  }
  const auto refused = cluster.client(0).open_group(cluster.request("again"));
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kAborted);
}

/// The coordinator finds that a rank is gone when it writes to it, before it has read why.
TEST(Control, WhatARankSaysBeforeItVanishesIsTheReasonThatTheOthersHear) {
  Cluster cluster;
  auto joining = std::async([&] { return join_coordinator(cluster.options(1, 2)); });
  cluster.observers = std::vector<Observer>(1);
  cluster.clients.push_back(
      ControlClient::join(cluster.options(0, 2), cluster.observer(0)).value());
  std::optional<JoinedConnection> brief = joining.get().value();
  const auto say = [&](const ClientMessage& message) {
    brief->tcp.queue_frame(brief->seal.wrap(encode(message)));
    EXPECT_EQ(brief->tcp.flush(), net::FlushVerdict::kDrained);
  };
  OpenGroup world = cluster.request("world");
  world.ranks.emplace_back(uint16_t{1});
  cluster.jobs.hold();
  auto opening = std::async([&] { return cluster.client(0).open_group(world); });
  say(world);
  ASSERT_TRUE(eventually([&] { return cluster.jobs.opened == 1; }));
  say(GiveUp{GroupId(0), ErrorCode::kAborted, "enough"});
  const linger at_once{1, 0};
  ASSERT_EQ(::setsockopt(brief->tcp.fd(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once), 0);
  brief.reset();
  cluster.jobs.release();  // Next it tells both ranks that the group is open.
  EXPECT_EQ(cluster.observer(0).abort().error.what, "rank 1 ended group 0: enough");
  EXPECT_TRUE(opening.get().has_value());
}

TEST(Control, LeavingIsSeenByTheOthersAndIsNoDeath) {
  Cluster cluster;
  cluster.join_all(2);
  cluster.open_world();
  EXPECT_FALSE(cluster.client(0).leave(10ms));
  EXPECT_EQ(cluster.observer(1).lefts(), 1u);
  cluster.clients[0].reset();
  EXPECT_TRUE(cluster.client(1).leave(10s));
  EXPECT_EQ(cluster.counter("deaths"), 0u);
  EXPECT_EQ(cluster.counter("aborts"), 0u);
}

/// The others may still wait for the result of its last operation. A heartbeat that was due behind
/// the farewell took the word of that operation with it, and came too late.
TEST(Control, WhoClosesAndLeavesWhenAHeartbeatIsDueHasPostedWhatOthersWaitFor) {
  Cluster cluster;
  cluster.join_all(2);
  const GroupId group = cluster.open_world().group;
  cluster.observer(1).does({{group, 1, 0, kOperation, {}, ""}});
  cluster.observer(0).hold();
  cluster.observer(0).closes({group, 1, 1, kOperation, {}, ""});
  cluster.client(0).close_group(group);
  EXPECT_FALSE(cluster.client(0).leave(10ms));
  std::this_thread::sleep_for(cluster.client(0).welcome().heartbeat);  // The next one is due.
  cluster.observer(0).release();
  EXPECT_EQ(cluster.observer(1).lefts(), 1u);
  EXPECT_TRUE(cluster.client(1).leave(10s));
  EXPECT_EQ(cluster.counter("aborts"), 0u);
}

TEST(Control, AWrongKeyIsDeniedAndCounted) {
  Cluster cluster;
  JoinOptions options = cluster.options(0, 1);
  options.key = auth::random_key();
  Observer observer;
  const auto client = ControlClient::join(options, observer);
  ASSERT_FALSE(client.has_value());
  EXPECT_EQ(client.error().code, ErrorCode::kDenied);
  EXPECT_EQ(client.error().what,
            "the key in /etc/sumcast.key is not the one that " + cluster.where() + " uses");
  EXPECT_EQ(cluster.counter("denied_wrong_key"), 1u);
  EXPECT_EQ(cluster.counter("connections_authenticated"), 0u);
}

TEST(Control, OneSideSealedAndTheOtherNotIsSaid) {
  Cluster sealed;
  JoinOptions options = sealed.options(0, 1);
  options.key.reset();
  Observer observer;
  const auto bare = ControlClient::join(options, observer);
  ASSERT_FALSE(bare.has_value());
  EXPECT_EQ(bare.error().code, ErrorCode::kDenied);
  EXPECT_EQ(bare.error().what,
            sealed.where() +
                " requires a key and this rank has none; set SUMCAST_KEY_FILE to the "
                "file that the daemon uses");
  EXPECT_TRUE(eventually([&] { return sealed.counter("denied_wrong_hello") == 1; }));

  Cluster open{std::nullopt};
  options = open.options(0, 1);
  options.key = auth::random_key();
  const auto keyed = ControlClient::join(options, observer);
  ASSERT_FALSE(keyed.has_value());
  EXPECT_EQ(keyed.error().what,
            open.where() +
                " runs with --insecure but this rank has a key (/etc/sumcast.key); give "
                "the daemon the key too, or run this rank with --insecure");
  options.key.reset();
  EXPECT_TRUE(ControlClient::join(options, observer).has_value());
}

/// What a client says to something that answers a connection with `frame`.
Error answer_to(const std::string& frame) {
  auto listener = net::TcpListener::open(loopback()).value();
  std::thread peer([&] {
    net::wait_ready(listener.fd(), POLLIN, runtime::monotonic_now() + 10s);
    auto connection = std::move(*listener.accept().value());
    connection.queue_frame(std::as_bytes(std::span(frame)));
    connection.flush();
    net::wait_ready(connection.fd(), POLLIN, runtime::monotonic_now() + 10s);
  });
  JoinOptions options;
  options.coordinator = listener.local();
  options.join = Join{"x", Rank(0), 1, "h", "n", "", "", "", milliseconds(10'000)};
  Observer observer;
  const auto client = ControlClient::join(options, observer);
  peer.join();
  Error error = client ? Error{} : client.error();
  const std::string where = options.coordinator.text();
  if (error.what.find(where) != std::string::npos) {
    error.what.replace(error.what.find(where), where.size(), "HERE");
  }
  return error;
}

TEST(Control, AnotherProtocolIsNamed) {
  const std::string ours = std::to_string(kProtocol), newer = std::to_string(kProtocol + 1);
  const Error old = answer_to(R"({"kind":"hello","protocol":0})");
  EXPECT_EQ(old.code, ErrorCode::kDenied);
  EXPECT_EQ(old.what, "HERE speaks control protocol 0, this program " + ours +
                          ": an old daemon; use the same release on both");
  EXPECT_EQ(answer_to(R"({"kind":"hello","protocol":)" + newer + R"(,"x":1})").what,
            "HERE speaks control protocol " + newer + ", this program " + ours +
                ": this program is older than the daemon; use the same release on both");
  EXPECT_EQ(answer_to("SSH-2.0-OpenSSH").what,
            "what listens at HERE is no Sumcast coordinator; check the address");
}

TEST(Control, AMismatchIsTheSameErrorOnAllRanks) {
  Cluster cluster;
  cluster.join_all(3);
  const GroupPlan plan = cluster.open_world();
  for (const int r : {0, 1, 2}) {
    cluster.observer(r).calls(7, r == 1 ? "all_reduce f32[2000] sum" : kOperation);
  }
  for (int i = 0; i < 1000; ++i) {
    cluster.server->report_mismatch(plan.incarnation, {plan.group, Rank(0), 5, Rank(1), 6});
  }
  for (const int r : {0, 1, 2}) {
    const Observer::Seen abort = cluster.observer(r).abort();
    EXPECT_EQ(abort.error.code, ErrorCode::kMismatch);
    EXPECT_EQ(abort.error.what,
              "all_reduce #7 on group 0 does not match: ranks 0 and 2 call all_reduce f32[1000] "
              "sum; rank 1 calls all_reduce f32[2000] sum");
  }
}

TEST(Control, AnOverdueOperationNamesAllWhoAreMissing) {
  Cluster cluster;
  cluster.join_all(3);
  const GroupPlan plan = cluster.open_world();
  cluster.observer(0).does({{plan.group, 1, 0, kOperation, milliseconds(300), ""}});
  cluster.observer(2).does({{plan.group, 0, 0, "", milliseconds(0), "loading"}});
  cluster.client(0).report_overdue({plan.group, 1, kOperation, milliseconds(300)});
  for (const int r : {0, 1, 2}) {
    const Observer::Seen abort = cluster.observer(r).abort();
    EXPECT_EQ(abort.error.code, ErrorCode::kTimeout);
    EXPECT_EQ(abort.error.what,
              "all_reduce #1 on group 0: timed out after 300 ms; waiting for 2 of 3 ranks: rank 1 "
              "(no operation yet), rank 2 (no operation yet, \"loading\")");
    EXPECT_EQ(abort.ranks, (std::vector<Rank>{Rank(1), Rank(2)}));
  }
}

TEST(Control, AThousandGroupsLeaveNothingBehind) {
  Cluster cluster;
  cluster.join_all(2);
  const auto descriptors = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"),
                         std::filesystem::directory_iterator());
  };
  const auto before = descriptors();
  Cluster::each(2, [&](int r) {
    for (int i = 0; i < 1000; ++i) {
      const auto plan = cluster.client(r).open_group(cluster.request("g" + std::to_string(i)));
      ASSERT_TRUE(plan.has_value()) << plan.error().what;
      cluster.client(r).close_group(plan->group);
    }
  });
  EXPECT_TRUE(eventually([&] { return cluster.jobs.closed == 1000; }));
  EXPECT_EQ(descriptors(), before);
  EXPECT_EQ(cluster.server->status_json()["jobs"][0]["slots_in_use"], 0);
}

TEST(Control, ThreadsOfOneRankOpenDifferentGroupsAtOnceInAnyOrder) {
  Cluster cluster;
  cluster.join_all(2);
  Cluster::each(8, [&](int thread) {
    const int rank = thread % 2;  // Threads 2k and 2k + 1 open group k.
    const auto plan = cluster.client(rank).open_group(cluster.request(std::to_string(thread / 2)));
    ASSERT_TRUE(plan.has_value()) << plan.error().what;
  });
  EXPECT_EQ(cluster.jobs.opened, 4);
}

TEST(Control, StrangersNeitherEnterNorStopOthersFromJoining) {
  Cluster cluster;
  std::vector<net::TcpConnection> strangers;
  const auto connect = [&] {
    return net::connect_tcp(cluster.server->endpoint(), std::nullopt, runtime::monotonic_now() + 5s)
        .value();
  };
  for (int i = 0; i < 100; ++i) {
    strangers.push_back(connect());
    std::string noise(static_cast<size_t>(i * 7), static_cast<char>(i));
    if (i % 3 == 0) noise = "GET / HTTP/1.1\r\n\r\n";
    strangers.back().queue_frame(std::as_bytes(std::span(noise)));
    strangers.back().flush();
  }
  cluster.join_all(2);
  EXPECT_EQ(cluster.counter("connections_authenticated"), 2u);
  EXPECT_GT(cluster.counter("denied_wrong_hello"), 0u);
  // Those who stay silent are gone after their two seconds.
  EXPECT_TRUE(
      eventually([&] { return cluster.server->status_json()["connections"].get<int>() == 2; }));
}

TEST(Control, AStrangersLongFrameIsCutOffBeforeItComes) {
  Cluster cluster;
  auto stranger =
      net::connect_tcp(cluster.server->endpoint(), std::nullopt, runtime::monotonic_now() + 5s)
          .value();
  const std::string noise(kStrangerFrameBytesMax + 1, 'x');
  stranger.queue_frame(std::as_bytes(std::span(noise)));
  stranger.flush();
  EXPECT_TRUE(eventually([&] { return cluster.counter("denied_wrong_hello") == 1; }));
}

TEST(Control, AForgedFrameIsTheDeathOfItsConnectionOnly) {
  Cluster cluster;
  cluster.join_all(1);
  auto stranger =
      net::connect_tcp(cluster.server->endpoint(), std::nullopt, runtime::monotonic_now() + 5s)
          .value();
  const std::string hello = encode(ClientHello{kProtocol, std::string(64, 'a'), true});
  const std::string forged = std::string(16, '\0') + encode(cluster.options(0, 1).join);
  stranger.queue_frame(std::as_bytes(std::span(hello)));
  stranger.queue_frame(std::as_bytes(std::span(forged)));
  stranger.flush();
  EXPECT_TRUE(eventually([&] { return cluster.counter("denied_wrong_key") == 1; }));
  EXPECT_EQ(cluster.server->status_json()["jobs"][0]["ranks"][0]["state"], "live");
}

TEST(Control, AStoppingCoordinatorTellsItsMembers) {
  Cluster cluster;
  cluster.join_all(2);
  const std::string where = cluster.where();
  cluster.server->stop();
  const Observer::Seen abort = cluster.observer(1).abort();
  EXPECT_FALSE(abort.group.has_value());
  EXPECT_EQ(abort.error.what, "the coordinator at " + where + " is shutting down");
  EXPECT_EQ(cluster.jobs.ended, 1);
  EXPECT_FALSE(cluster.client(0).open_group(cluster.request("g")).has_value());
}

TEST(Control, WaitingForAGroupEndsWithTheGroupThatItBelongsTo) {
  Cluster cluster;
  cluster.join_all(2);
  const GroupId world = cluster.open_world().group;
  OpenGroup more = cluster.request("rows of world");
  more.timeout = milliseconds(60'000);
  auto waits = std::async([&] { return cluster.client(0).open_group(more, world); });
  std::this_thread::sleep_for(50ms);
  cluster.client(1).give_up(world, Error{ErrorCode::kAborted, "rank 1 has had enough"});
  const auto plan = waits.get();
  ASSERT_FALSE(plan.has_value());
  EXPECT_NE(plan.error().what.find("rank 1 has had enough"), std::string::npos);
}

/// A coordinator that welcomes one rank and opens its first group, then says nothing more, and goes
/// when it is told to.
class MuteCoordinator {
 public:
  MuteCoordinator() : listener_(net::TcpListener::open(loopback()).value()) {
    thread_ = std::thread([this] { run(); });
  }
  ~MuteCoordinator() { go(); }
  void go() {
    gone_ = true;
    if (thread_.joinable()) thread_.join();
  }
  const net::Endpoint& endpoint() const { return listener_.local(); }

 private:
  void run() {
    net::wait_ready(listener_.fd(), POLLIN, runtime::monotonic_now() + 10s);
    auto connection = std::move(*listener_.accept().value());
    const auto say = [&](const std::string& body) {
      connection.queue_frame(std::as_bytes(std::span(body)));
      connection.flush();
    };
    say(encode(ServerHello{kProtocol, std::string(64, '0'), false}));
    while (!gone_) {
      net::wait_ready(connection.fd(), POLLIN, runtime::monotonic_now() + 20ms);
      connection.read_frames([&](std::span<const std::byte> frame) {
        const auto message = decode_client_message(*FrameSeal().unwrap(frame));
        if (message && std::holds_alternative<Join>(*message)) {
          say(encode(Welcome{Incarnation(1), Epoch(1), {Member{}}, {}, milliseconds(50)}));
        } else if (message && std::holds_alternative<OpenGroup>(*message)) {
          say(encode(GroupOpened{"g", GroupId(1), {Rank(0)}, SlotIndex(0), 1, 1420}));
        }
        return true;
      });
    }
  }

  net::TcpListener listener_;
  std::atomic<bool> gone_ = false;
  std::thread thread_;
};

JoinOptions options_for(const MuteCoordinator& coordinator) {
  JoinOptions options;
  options.coordinator = coordinator.endpoint();
  options.join = Join{"x", Rank(0), 1, "h", "n", "", "", "", milliseconds(10'000)};
  return options;
}

TEST(Control, ACoordinatorThatHangsDoesNotHangItsMembers) {
  MuteCoordinator coordinator;
  Observer observer;
  auto client = ControlClient::join(options_for(coordinator), observer).value();
  ASSERT_TRUE(client->open_group({"g", {Rank(0)}, 1420, 1, milliseconds(5000)}).has_value());
  client->report_overdue({GroupId(1), 3, kOperation, milliseconds(5000)});
  EXPECT_EQ(observer.abort().error.what,
            "all_reduce #3 on group 1: timed out after 5.0 s; the coordinator at " +
                coordinator.endpoint().text() + " did not say who is missing");
  EXPECT_FALSE(client->leave(50ms));
}

TEST(Control, ACoordinatorThatIsGoneAbortsEverything) {
  MuteCoordinator coordinator;
  Observer observer;
  auto client = ControlClient::join(options_for(coordinator), observer).value();
  coordinator.go();
  const Observer::Seen abort = observer.abort();
  EXPECT_FALSE(abort.group.has_value());
  EXPECT_EQ(abort.error.code, ErrorCode::kAborted);
  EXPECT_TRUE(abort.error.what.starts_with("the coordinator at " + coordinator.endpoint().text() +
                                           " is gone: "))
      << abort.error.what;
  EXPECT_FALSE(client->leave(10s));
}

TEST(Control, TwoHundredAndFiftySixRanksJoin) {
  Cluster cluster;
  cluster.join_all(256);
  EXPECT_EQ(cluster.client(255).welcome().members.size(), 256u);
  Cluster::each(256, [&](int r) {
    EXPECT_TRUE(cluster.client(r).leave(30s));
    const auto abort = cluster.client(r).abort_of(GroupId(0));
    EXPECT_FALSE(abort.has_value()) << abort->what;
  });
}

TEST(Control, ATakenPortIsNamed) {
  Cluster cluster;
  ServerOptions options;
  options.listen = cluster.server->endpoint();
  Jobs jobs;
  const auto second = CoordinatorServer::start(options, jobs);
  ASSERT_FALSE(second.has_value());
  EXPECT_EQ(second.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(second.error().what.find(cluster.where()), std::string::npos) << second.error().what;
}

}  // namespace
}  // namespace sumcast::control
