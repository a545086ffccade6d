// Real namespaces: needs root or user namespaces, and skips with the reason where there are none.
#include "lab/cluster.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <net/if.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include "lab/privileges.h"

namespace sumcast::lab {
namespace {

using testing::HasSubstr;

class ClusterTest : public testing::Test {
 protected:
  void SetUp() override {
    if (const Result<void> entered = enter_user_namespace_if_needed(); !entered) {
      GTEST_SKIP() << entered.error().what;
    }
    if (const auto why = why_no_namespaces()) GTEST_SKIP() << *why;
  }
};

ClusterOptions shaped(int workers) {
  ClusterOptions options;
  options.workers = workers;
  options.rate_bits_per_second = 100'000'000;
  options.with_server = true;
  return options;
}

sockaddr_in ipv4(const std::string& address, uint16_t port) {
  sockaddr_in out{};
  out.sin_family = AF_INET;
  out.sin_port = htons(port);
  EXPECT_EQ(::inet_pton(AF_INET, address.c_str(), &out.sin_addr), 1);
  return out;
}

// A bound UDP socket on `node`, made by a thread that goes there and ends.
Fd udp_socket(const Cluster& cluster, Node node, uint16_t port) {
  Fd made;
  std::thread([&] {
    ASSERT_TRUE(cluster.enter(node));
    made = Fd(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    const timeval patience{10, 0};
    ::setsockopt(made.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    const sockaddr_in local = ipv4(cluster.address(node), port);
    ASSERT_EQ(::bind(made.get(), reinterpret_cast<const sockaddr*>(&local), sizeof local), 0);
  }).join();
  return made;
}

void send_to(const Fd& from, const std::string& address, uint16_t port, size_t bytes) {
  const std::string payload(bytes, 'x');
  const sockaddr_in to = ipv4(address, port);
  ASSERT_EQ(::sendto(from.get(), payload.data(), bytes, 0, reinterpret_cast<const sockaddr*>(&to),
                     sizeof to),
            static_cast<ssize_t>(bytes));
}

ssize_t receive(const Fd& at) {
  char buffer[2048];
  return ::recv(at.get(), buffer, sizeof buffer, 0);
}

TEST_F(ClusterTest, ConnectsEveryNodeWithEveryOther) {
  Cluster cluster = Cluster::build(shaped(3)).value();
  const std::vector<Node> nodes = {Node::of_worker(0), Node::of_worker(1), Node::of_worker(2),
                                   Node::server(), Node::aggregator()};
  std::vector<Fd> sockets;
  for (const Node node : nodes) sockets.push_back(udp_socket(cluster, node, 4000));
  for (size_t from = 0; from < nodes.size(); ++from) {
    for (size_t to = 0; to < nodes.size(); ++to) {
      send_to(sockets[from], cluster.address(nodes[to]), 4000, 100);
      EXPECT_EQ(receive(sockets[to]), 100) << name_of(nodes[from]) << " " << name_of(nodes[to]);
    }
  }
}

TEST_F(ClusterTest, CountsWhatCrossesALinkAtBothOfItsEnds) {
  Cluster cluster = Cluster::build(shaped(2)).value();
  const Fd worker = udp_socket(cluster, Node::of_worker(1), 4000);
  const Fd aggregator = udp_socket(cluster, Node::aggregator(), 4000);
  // The first datagram brings address resolution along; count after it.
  send_to(worker, cluster.address(Node::aggregator()), 4000, 1);
  send_to(aggregator, cluster.address(Node::of_worker(1)), 4000, 1);
  ASSERT_EQ(receive(worker), 1);
  ASSERT_EQ(receive(aggregator), 1);
  ASSERT_TRUE(cluster.drain(10s));
  const std::vector<LinkCounters> before = cluster.all_counters().value();
  ASSERT_EQ(before.size(), 3u);
  for (int i = 0; i < 50; ++i) {
    send_to(worker, cluster.address(Node::aggregator()), 4000, 1000);
    if (i < 20) send_to(aggregator, cluster.address(Node::of_worker(1)), 4000, 500);
  }
  ASSERT_TRUE(cluster.drain(10s));
  const std::vector<LinkCounters> after = cluster.all_counters().value();
  // An Ethernet, an IP and a UDP header around every payload; stray control traffic may add a bit.
  constexpr uint64_t kHeaders = 14 + 20 + 8;
  EXPECT_GE(after[1].up.bytes - before[1].up.bytes, 50 * (1000 + kHeaders));
  EXPECT_LE(after[1].up.bytes - before[1].up.bytes, 51 * (1000 + kHeaders));
  EXPECT_GE(after[1].up.packets - before[1].up.packets, 50u);
  EXPECT_GE(after[1].down.bytes - before[1].down.bytes, 20 * (500 + kHeaders));
  EXPECT_LE(after[1].down.bytes - before[1].down.bytes, 22 * (500 + kHeaders));
  EXPECT_LE(after[0].up.bytes - before[0].up.bytes, 1000u);
  EXPECT_EQ(cluster.counters(Node::of_worker(1)).value().up.drops, 0u);
}

TEST_F(ClusterTest, SendsAMulticastToEveryLinkOnce) {
  Cluster cluster = Cluster::build(shaped(3)).value();
  std::vector<Fd> sockets;
  for (int worker = 0; worker < 3; ++worker) {
    Fd& socket = sockets.emplace_back();
    std::thread([&] {
      ASSERT_TRUE(cluster.enter(Node::of_worker(worker)));
      socket = Fd(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
      const timeval patience{10, 0};
      ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
      const sockaddr_in any = ipv4("239.77.0.1", 4001);
      ASSERT_EQ(::bind(socket.get(), reinterpret_cast<const sockaddr*>(&any), sizeof any), 0);
      ip_mreq membership{};
      ::inet_pton(AF_INET, "239.77.0.1", &membership.imr_multiaddr);
      ::inet_pton(AF_INET, cluster.address(Node::of_worker(worker)).c_str(),
                  &membership.imr_interface);
      ASSERT_EQ(
          ::setsockopt(socket.get(), IPPROTO_IP, IP_ADD_MEMBERSHIP, &membership, sizeof membership),
          0);
    }).join();
  }
  const Fd aggregator = udp_socket(cluster, Node::aggregator(), 4001);
  in_addr interface {};
  ::inet_pton(AF_INET, cluster.address(Node::aggregator()).c_str(), &interface);
  ASSERT_EQ(
      ::setsockopt(aggregator.get(), IPPROTO_IP, IP_MULTICAST_IF, &interface, sizeof interface), 0);
  send_to(aggregator, "239.77.0.1", 4001, 700);
  for (const Fd& socket : sockets) EXPECT_EQ(receive(socket), 700);
}

TEST_F(ClusterTest, PutsTheDisciplinesWhereTcSeesThem) {
  const Cluster cluster = Cluster::build(shaped(2)).value();
  const auto shown = [&](Node node) {
    SpawnOptions options;
    options.output = Redirect::pipe();
    Process tc = cluster.spawn(node, {"tc", "-s", "qdisc", "show"}, options).value();
    return tc.read_output(10s).value();
  };
  EXPECT_THAT(shown(Node::of_worker(0)), HasSubstr("dev link0 root"));
  EXPECT_THAT(shown(Node::of_worker(0)), HasSubstr("rate 100Mbit burst 128Kb"));
  EXPECT_THAT(shown(Node::aggregator()), HasSubstr("dev port1 root"));
  EXPECT_THAT(shown(Node::aggregator()), HasSubstr("qdisc noqueue 0: dev sum0 root"));

  ClusterOptions unshaped;
  const Cluster open = Cluster::build(unshaped).value();
  SpawnOptions options;
  options.output = Redirect::pipe();
  Process tc = open.spawn(Node::of_worker(1), {"tc", "qdisc", "show"}, options).value();
  EXPECT_THAT(tc.read_output(10s).value(), HasSubstr("qdisc pfifo"));
}

TEST_F(ClusterTest, SpeaksIpv6) {
  const Cluster cluster = Cluster::build(shaped(2)).value();
  Fd sender, receiver;
  const auto open = [&](Node node, Fd& socket) {
    std::thread([&] {
      ASSERT_TRUE(cluster.enter(node));
      socket = Fd(::socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0));
      const timeval patience{10, 0};
      ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
      sockaddr_in6 local{};
      local.sin6_family = AF_INET6;
      local.sin6_port = htons(4000);
      ASSERT_EQ(::inet_pton(AF_INET6, cluster.address6(node).c_str(), &local.sin6_addr), 1);
      ASSERT_EQ(::bind(socket.get(), reinterpret_cast<const sockaddr*>(&local), sizeof local), 0);
    }).join();
  };
  open(Node::of_worker(0), sender);
  open(Node::of_worker(1), receiver);
  sockaddr_in6 to{};
  socklen_t to_bytes = sizeof to;
  ASSERT_EQ(::getsockname(receiver.get(), reinterpret_cast<sockaddr*>(&to), &to_bytes), 0);
  ASSERT_EQ(::sendto(sender.get(), "v6", 2, 0, reinterpret_cast<sockaddr*>(&to), sizeof to), 2);
  EXPECT_EQ(receive(receiver), 2);
}

TEST_F(ClusterTest, GivesAllNodesTheSameCongestionControl) {
  ClusterOptions options = shaped(1);
  options.tcp_congestion_control = "reno";  // The one that every kernel has.
  const Cluster cluster = Cluster::build(options).value();
  for (const Node node : {Node::of_worker(0), Node::server(), Node::aggregator()}) {
    SpawnOptions piped;
    piped.output = Redirect::pipe();
    Process cat =
        cluster.spawn(node, {"cat", "/proc/sys/net/ipv4/tcp_congestion_control"}, piped).value();
    EXPECT_EQ(cat.read_line(10s).value(), "reno") << name_of(node);
  }
}

TEST_F(ClusterTest, BuildsManyWorkers) {
  ClusterOptions options;
  options.workers = 16;
  Cluster cluster = Cluster::build(options).value();
  EXPECT_EQ(cluster.all_counters().value().size(), 16u);
  EXPECT_TRUE(cluster.drain(10s));
}

TEST_F(ClusterTest, LeavesTheBuildersNetworkAlone) {
  const auto interfaces = [] {
    std::set<std::string> names;
    struct if_nameindex* const list = ::if_nameindex();
    for (struct if_nameindex* entry = list; entry->if_index != 0; ++entry) {
      names.insert(entry->if_name);
    }
    ::if_freenameindex(list);
    return names;
  };
  const std::set<std::string> before = interfaces();
  const Cluster cluster = Cluster::build(shaped(2)).value();
  EXPECT_EQ(interfaces(), before);
}

TEST_F(ClusterTest, ContainsWhatEscapesItsProcessGroup) {
  const Cluster cluster = Cluster::build(shaped(1)).value();
  SpawnOptions options;
  options.output = Redirect::pipe();
  options.contain = true;
  // `setsid` leaves session and group, as the daemons of an MPI do. PIDs are those of the
  // container, so the marker in the command line is what is looked for.
  Process contained =
      cluster
          .spawn(Node::of_worker(0), {"/bin/sh", "-c", "setsid sleep 77123 & echo up; sleep 600"},
                 options)
          .value();
  ASSERT_EQ(contained.read_line(10s).value(), "up");
  const auto alive = [] {
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
      std::ifstream file(entry.path() / "cmdline");
      std::string line;
      if (std::getline(file, line, '\0') && line == "sleep" && std::getline(file, line, '\0') &&
          line == "77123") {
        return true;
      }
    }
    return false;
  };
  for (int i = 0; i < 1000 && !alive(); ++i) std::this_thread::sleep_for(10ms);
  EXPECT_TRUE(alive());
  contained.kill();
  EXPECT_FALSE(alive());
}

TEST_F(ClusterTest, PassesOnTheExitCodeOfAContainedProgram) {
  const Cluster cluster = Cluster::build(shaped(1)).value();
  SpawnOptions options;
  options.contain = true;
  Process exits = cluster.spawn(Node::of_worker(0), {"sh", "-c", "exit 5"}, options).value();
  EXPECT_EQ(exits.wait(10s).value().code, 5);
  Process dies = cluster.spawn(Node::of_worker(0), {"sh", "-c", "kill -9 $$"}, options).value();
  EXPECT_EQ(dies.wait(10s).value().code, 128 + SIGKILL);
  Process waits = cluster.spawn(Node::of_worker(0), {"sleep", "600"}, options).value();
  waits.send_signal(SIGTERM);
  EXPECT_EQ(waits.wait(10s).value().code, 128 + SIGTERM);
}

// The identity of a node's network namespace, as processes in it report it.
ino_t namespace_identity(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 ? status.st_ino : 0;
}

// Processes whose network namespace is one of `namespaces`.
std::vector<pid_t> processes_in(const std::set<ino_t>& namespaces) {
  std::vector<pid_t> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (!std::all_of(name.begin(), name.end(), [](char c) { return c >= '0' && c <= '9'; })) {
      continue;
    }
    if (namespaces.count(namespace_identity(entry.path() / "ns/net")) > 0) {
      found.push_back(std::stoi(name));
    }
  }
  return found;
}

// Runs in a child of its own: builds a cluster with processes on it, reports the namespaces and
// waits to be killed.
[[noreturn]] void build_and_wait(int report_fd) {
  const Cluster cluster = Cluster::build(shaped(2)).value();
  std::vector<Process> processes;
  SpawnOptions contained;
  contained.contain = true;
  processes.push_back(cluster.spawn(Node::of_worker(0), {"sleep", "600"}).value());
  processes.push_back(
      cluster.spawn(Node::aggregator(), {"sh", "-c", "setsid sleep 600 & wait"}, contained)
          .value());
  ino_t namespaces[2] = {namespace_identity(cluster.namespace_path(Node::of_worker(0))),
                         namespace_identity(cluster.namespace_path(Node::aggregator()))};
  const ssize_t ignored = ::write(report_fd, namespaces, sizeof namespaces);
  static_cast<void>(ignored);
  for (;;) ::pause();
}

TEST_F(ClusterTest, LeavesNothingBehindWhenTheBuilderIsKilled) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t builder = ::fork();
  if (builder == 0) build_and_wait(ends[1]);
  ::close(ends[1]);
  ino_t namespaces[2] = {};
  ASSERT_EQ(::read(ends[0], namespaces, sizeof namespaces), ssize_t{sizeof namespaces});
  ::close(ends[0]);
  const std::set<ino_t> watched(std::begin(namespaces), std::end(namespaces));
  ASSERT_EQ(watched.count(0), 0u);
  for (int i = 0; i < 1000 && processes_in(watched).size() < 3; ++i) {
    std::this_thread::sleep_for(10ms);
  }
  EXPECT_EQ(processes_in(watched).size(), 3u);  // A sleep; a shell and its escaped sleep.
  ASSERT_EQ(::kill(builder, SIGKILL), 0);
  ASSERT_EQ(::waitpid(builder, nullptr, 0), builder);
  // A namespace lives exactly as long as a process or a descriptor holds it, and all descriptors
  // were the builder's. Its links live in it.
  for (int i = 0; i < 1000 && !processes_in(watched).empty(); ++i) {
    std::this_thread::sleep_for(10ms);
  }
  EXPECT_THAT(processes_in(watched), testing::IsEmpty());
}

// Becomes nobody and runs the tests named by `filter` again. exec makes /proc/self writable again,
// which a change of user has taken away.
[[noreturn]] void run_as_nobody(const char* filter) {
  constexpr uid_t kNobody = 65534;
  if (::setgroups(0, nullptr) != 0 || ::setresgid(kNobody, kNobody, kNobody) != 0 ||
      ::setresuid(kNobody, kNobody, kNobody) != 0) {
    ::_exit(99);
  }
  ::execl("/proc/self/exe", "lab_test", filter, nullptr);
  ::_exit(98);
}

TEST_F(ClusterTest, WorksForOrdinaryUsers) {
  std::ifstream map("/proc/self/uid_map");
  uint32_t inside = 0, outside = 0, count = 0;
  if (!(map >> inside >> outside >> count) || ::getuid() != 0 || count < 65535) {
    GTEST_SKIP() << "only real root can become another user to try this";
  }
  const pid_t child = ::fork();
  if (child == 0) run_as_nobody("--gtest_filter=ClusterTest.Con*:ClusterTest.Count*");
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  ASSERT_NE(WEXITSTATUS(status), 99);
  if (WEXITSTATUS(status) == 98) GTEST_SKIP() << "nobody may not read the test program";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(LoopbackCluster, GivesAddressesAndRunsProcessesWithoutPrivileges) {
  ClusterOptions options;
  options.workers = 3;
  Cluster cluster = Cluster::on_loopback(options).value();
  EXPECT_FALSE(cluster.has_links());
  EXPECT_EQ(cluster.address(Node::aggregator()), "127.0.0.1");
  const Fd from = udp_socket(cluster, Node::of_worker(0), 0);
  const Fd to = udp_socket(cluster, Node::of_worker(2), 0);
  sockaddr_in local{};
  socklen_t local_bytes = sizeof local;
  ASSERT_EQ(::getsockname(to.get(), reinterpret_cast<sockaddr*>(&local), &local_bytes), 0);
  send_to(from, cluster.address(Node::of_worker(2)), ntohs(local.sin_port), 64);
  EXPECT_EQ(receive(to), 64);
  Process child = cluster.spawn(Node::of_worker(1), {"true"}).value();
  EXPECT_TRUE(child.wait(10s).value().ok());
  EXPECT_TRUE(cluster.drain(1ms));
  EXPECT_TRUE(cluster.all_counters().value().empty());
}

TEST(Cluster, RefusesAnOptionThatMakesNoSense) {
  ClusterOptions options;
  options.workers = 1000;
  const auto cluster = Cluster::build(options);
  ASSERT_FALSE(cluster);
  EXPECT_EQ(cluster.error().code, ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace sumcast::lab
