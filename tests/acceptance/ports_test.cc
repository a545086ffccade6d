// A16: jobs side by side on one host with defaults, and many ranks on one host.
#include "acceptance/site.h"
#include "acceptance/tensor.h"

namespace sumcast::acceptance {
namespace {

/// A rank as torchrun starts it.
std::vector<std::string> launched(uint32_t rank, uint32_t world, uint16_t port) {
  return {"RANK=" + std::to_string(rank),        "WORLD_SIZE=" + std::to_string(world),
          "LOCAL_RANK=" + std::to_string(rank),  "MASTER_ADDR=127.0.0.1",
          "MASTER_PORT=" + std::to_string(port), "SUMCAST_KEY_FILE=" + key_file()};
}

TEST(Ports, TwoJobsRunSideBySideWithDefaults) {
  const auto hosts = loopback_hosts(1);
  for (const bool with_daemon : {false, true}) {
    SCOPED_TRACE(with_daemon ? "in-network" : "direct");
    DaemonProcess daemon(hosts);
    std::vector<RankProcess> ranks;
    for (int job = 0; job < 2; ++job) {
      free_port();  // A launcher's own store holds MASTER_PORT; the next one is ours.
      const auto port = static_cast<uint16_t>(free_port() - 1);
      for (uint32_t rank = 0; rank < 2; ++rank) {
        auto env = launched(rank, 2, port);
        if (with_daemon) env.push_back("SUMCAST_AGGREGATOR=" + daemon.address());
        ranks.emplace_back(hosts, lab::Node::of_worker(0), env);
      }
    }
    for (RankProcess& rank : ranks) rank.tell("join env");
    for (RankProcess& rank : ranks) {
      const json answer = rank.hear();
      EXPECT_TRUE(answer.value("ok", false)) << answer.dump();
    }
    // Different tensors in the two jobs: neither may see a byte of the other's.
    for (size_t i = 0; i < ranks.size(); ++i) {
      ranks[i].tell("all_reduce f32 sum 100000 seed=" + std::to_string(i / 2));
    }
    for (size_t i = 0; i < ranks.size(); ++i) {
      const json answer = ranks[i].hear();
      EXPECT_EQ(answer.value("sha", ""),
                sha256(all_reduce_reference(ElementType::kF32, Values::kAny, Reduction::kSum, i / 2,
                                            2, 100'000)))
          << answer.dump();
    }
  }
}

TEST(Ports, ManyRanksOnOneHostTakeAConstantNumberOfSocketsEach) {
  const auto world = by_length<uint32_t>(32, 256);
  const auto hosts = loopback_hosts(static_cast<int>(world));
  for (const bool with_daemon : {false, true}) {
    SCOPED_TRACE(with_daemon ? "in-network" : "direct");
    DaemonProcess daemon(hosts);
    Crew crew(hosts, world);
    const std::string where = with_daemon ? at_aggregator(daemon) : at_coordinator(hosts);
    expect_all_ok(crew.join(where + "join_timeout=110000 timeout=110000"));
    const std::string expected = sha256(
        all_reduce_reference(ElementType::kF32, Values::kAny, Reduction::kSum, 5, world, 20'000));
    expect_all_sha(crew.all("all_reduce f32 sum 20000 seed=5"), expected);
    for (const json& facts : crew.all("facts")) {
      EXPECT_LE(facts["udp"].size(), 4u) << facts.dump();
    }
  }
}

TEST(Ports, ATakenPortIsNamedWithItsOwner) {
  const auto hosts = loopback_hosts(1);
  const std::string where = at_coordinator(hosts);
  Crew first(hosts, 1);
  expect_all_ok(first.join(where));
  RankProcess second(hosts, lab::Node::of_worker(0));
  const json answer =
      second.ask("join rank=0 world=1 key=" + key_file() + " " + where + "join_timeout=5000");
  EXPECT_EQ(answer.value("code", 0), static_cast<int>(ErrorCode::kUnavailable)) << answer.dump();
  const std::string port = where.substr(where.find(':'), where.find(' ') - where.find(':'));
  EXPECT_THAT(answer.value("error", ""), testing::HasSubstr(port));
  EXPECT_THAT(answer.value("error", ""),
              testing::HasSubstr(std::to_string(first[0].process().pid())));
}

}  // namespace
}  // namespace sumcast::acceptance
