// A9: the address that a rank uses is the one that leads to its peers, whatever else the host has.
#include "acceptance/site.h"

namespace sumcast::acceptance {
namespace {

using lab::Node;
using testing::Each;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;

class Addresses : public NamespaceTest {};

/// Two workers; each also has a docker0, and a second interface that nothing leads through.
lab::Cluster crowded_hosts() {
  lab::ClusterOptions options;
  options.workers = 2;
  lab::Cluster hosts = namespace_hosts(options);
  for (int w = 0; w < 2; ++w) {
    const Node node = Node::of_worker(w);
    ip(hosts, node, "link add docker0 type bridge");
    ip(hosts, node, "addr add 172.17.0.1/16 dev docker0");
    ip(hosts, node, "link set docker0 up");
    // On the same bridge and network as link0; routes go through link0, which is older.
    const std::string port = "altport" + std::to_string(w);
    ip(hosts, Node::aggregator(),
       "link add " + port + " type veth peer name alt0 netns " + hosts.namespace_path(node));
    ip(hosts, Node::aggregator(), "link set " + port + " master " + lab::kBridgeName + " up");
    ip(hosts, node, "addr add 10.77.9." + std::to_string(w + 1) + "/16 dev alt0");
    ip(hosts, node, "link set alt0 up");
  }
  return hosts;
}

/// The host is called localhost, so that whoever asks for its own name gets 127.0.0.1.
const std::vector<std::string> kMisnamed = {"unshare", "--uts", "sh", "-c",
                                            "hostname localhost && exec \"$0\""};

/// Two ranks of one job, on the two workers; what both have joined with.
std::vector<json> join_two(const lab::Cluster& hosts, const std::string& words,
                           std::vector<RankProcess>& ranks) {
  for (int w = 0; w < 2; ++w)
    ranks.emplace_back(hosts, Node::of_worker(w), std::vector<std::string>{}, kMisnamed);
  for (int w = 0; w < 2; ++w) {
    ranks[w].tell("join rank=" + std::to_string(w) + " world=2 key=" + key_file() + " " + words);
  }
  std::vector<json> answers;
  for (RankProcess& rank : ranks) answers.push_back(rank.hear());
  return answers;
}

std::vector<std::string> texts(const json& list) { return list.get<std::vector<std::string>>(); }

TEST_F(Addresses, WithoutFlagsTheRouteDecides) {
  const auto hosts = crowded_hosts();
  for (const bool with_daemon : {false, true}) {
    DaemonProcess daemon(hosts);
    std::vector<RankProcess> ranks;
    expect_all_ok(
        join_two(hosts, with_daemon ? at_aggregator(daemon) : at_coordinator(hosts), ranks));
    for (int w = 0; w < 2; ++w) {
      const json facts = ranks[w].ask("facts");
      EXPECT_THAT(texts(facts["udp"]), Each(hosts.address(Node::of_worker(w)))) << facts.dump();
      EXPECT_THAT(texts(facts["udp"]), Not(SizeIs(0))) << facts.dump();
      EXPECT_THAT(texts(facts["tcp"]), Each(hosts.address(Node::of_worker(w)))) << facts.dump();
      ranks[w].tell("all_reduce f32 sum 100000");
    }
    for (RankProcess& rank : ranks) EXPECT_TRUE(rank.hear().value("ok", false));
  }
}

TEST_F(Addresses, AnInterfaceIsNamedAsNcclUsersNameIt) {
  const auto hosts = crowded_hosts();
  DaemonProcess daemon(hosts);
  for (const char* selector : {"=alt0", "alt", "^link,docker,lo"}) {
    SCOPED_TRACE(selector);
    std::vector<RankProcess> ranks;
    const std::string words =
        at_aggregator(daemon) + "job=j" + std::to_string(free_port()) + " interface=" + selector;
    expect_all_ok(join_two(hosts, words, ranks));
    for (int w = 0; w < 2; ++w) {
      const json facts = ranks[w].ask("facts");
      EXPECT_THAT(texts(facts["udp"]), Each("10.77.9." + std::to_string(w + 1))) << facts.dump();
      ranks[w].tell("all_reduce f32 sum 100000");
    }
    for (RankProcess& rank : ranks) EXPECT_TRUE(rank.hear().value("ok", false));
  }
}

TEST_F(Addresses, ASelectorThatFitsNothingIsAnErrorThatSaysWhatThereIs) {
  const auto hosts = crowded_hosts();
  RankProcess rank(hosts, Node::of_worker(1));
  const json answer = rank.ask("join rank=1 world=2 key=" + key_file() +
                               " join_timeout=5000 interface==ib7 " + at_coordinator(hosts));
  EXPECT_EQ(answer.value("code", 0), static_cast<int>(ErrorCode::kUnavailable)) << answer.dump();
  EXPECT_THAT(answer.value("error", ""), HasSubstr("ib7"));
  EXPECT_THAT(answer.value("error", ""), HasSubstr("link0"));
  EXPECT_THAT(answer.value("error", ""), HasSubstr("SUMCAST_SOCKET_IFNAME"));
}

TEST_F(Addresses, IPv6AloneIsEnough) {
  lab::ClusterOptions options;
  options.workers = 2;
  const auto hosts = namespace_hosts(options);
  for (int w = 0; w < 2; ++w) ip(hosts, Node::of_worker(w), "-4 addr flush dev link0");
  ip(hosts, Node::aggregator(), std::string("-4 addr flush dev ") + lab::kBridgeName);
  for (const bool with_daemon : {false, true}) {
    DaemonProcess daemon(hosts, {}, "[" + hosts.address6(Node::aggregator()) + "]");
    std::vector<RankProcess> ranks;
    const std::string coordinator = "coordinator=[" + hosts.address6(Node::of_worker(0)) +
                                    "]:" + std::to_string(free_port()) + " algorithm=direct ";
    expect_all_ok(join_two(hosts, with_daemon ? at_aggregator(daemon) : coordinator, ranks));
    for (int w = 0; w < 2; ++w) {
      const json facts = ranks[w].ask("facts");
      EXPECT_THAT(texts(facts["udp"]), Each(hosts.address6(Node::of_worker(w)))) << facts.dump();
      ranks[w].tell("all_reduce f32 sum 100000");
    }
    for (RankProcess& rank : ranks) EXPECT_TRUE(rank.hear().value("ok", false));
  }
}

}  // namespace
}  // namespace sumcast::acceptance
