// What acceptance tests run on: hosts, a daemon, ranks as processes.
//
// Hosts are network namespaces, or addresses of 127.0.0.0/8 behind the same interface. Ranks are
// sumcast-test-rank processes that take steps (rank_program.h) and answer in JSON. All of them die
// with the test.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/result.h"
#include "lab/cluster.h"
#include "lab/process.h"

namespace sumcast::acceptance {

using namespace std::chrono_literals;
using nlohmann::json;

/// True with SUMCAST_LONG=1 in the environment: the long forms run too.
bool is_long();
/// The short or the long form of a number.
template <typename T>
T by_length(T in_short, T in_long) {
  return is_long() ? in_long : in_short;
}

/// A TCP and UDP port of loopback that is free now.
uint16_t free_port();
/// A key file for this test program, made once and removed at its end.
const std::string& key_file();

/// Hosts on loopback.
lab::Cluster loopback_hosts(int workers);
/// Hosts as namespaces. Fails the test if they cannot be built; see NamespaceTest.
lab::Cluster namespace_hosts(const lab::ClusterOptions& options);
/// Runs `ip` with these words on a host.
void ip(const lab::Cluster& hosts, lab::Node node, const std::string& words);

/// Skips, with the reason, where namespaces are not to be had.
class NamespaceTest : public testing::Test {
 protected:
  void SetUp() override;
};

/// sumcastd on the aggregator's host.
class DaemonProcess {
 public:
  explicit DaemonProcess(const lab::Cluster& hosts, const std::vector<std::string>& flags = {},
                         const std::string& listen_host = "");
  /// "host:port", as ranks are told.
  const std::string& address() const { return address_; }
  bool is_running() { return !process_.poll().has_value(); }
  lab::Process& process() { return process_; }

 private:
  lab::Process process_;
  std::string address_;
};

class RankProcess {
 public:
  RankProcess(const lab::Cluster& hosts, lab::Node node, const std::vector<std::string>& env = {},
              const std::vector<std::string>& prefix = {});
  /// Gives it a step.
  void tell(const std::string& step);
  /// Its next answer; {"ok": false, "error": "no answer ..."} after two minutes.
  json hear(Duration patience = 120s);
  json ask(const std::string& step) {
    tell(step);
    return hear();
  }
  lab::Process& process() { return process_; }

 private:
  lab::Process process_;
};

/// The ranks of one job, `per_host` on each host in order.
class Crew {
 public:
  Crew(const lab::Cluster& hosts, uint32_t world, uint32_t per_host = 1);
  /// "join rank=R world=W key=K " + `words` on every rank.
  std::vector<json> join(const std::string& words);
  /// The same step on all ranks, at once; their answers in order. "%r" stands for the rank.
  std::vector<json> all(const std::string& step);
  void tell_all(const std::string& step);
  RankProcess& operator[](size_t rank) { return ranks_[rank]; }
  size_t size() const { return ranks_.size(); }

 private:
  std::vector<RankProcess> ranks_;
};

/// Every answer is ok.
void expect_all_ok(const std::vector<json>& answers);
/// Every answer is ok and carries this digest.
void expect_all_sha(const std::vector<json>& answers, const std::string& sha);
/// Every answer has this error code; returns their common text, which must be the same on all.
std::string expect_one_error(const std::vector<json>& answers, ErrorCode code);

/// Names the two forms of a test: without a daemon and with one.
inline std::string route_name(const testing::TestParamInfo<bool>& with_daemon) {
  return with_daemon.param ? "InNetwork" : "Direct";
}

/// A rank's words for where the job meets.
inline std::string at_coordinator(const lab::Cluster& hosts) {
  return "coordinator=" + hosts.address(lab::Node::of_worker(0)) + ":" +
         std::to_string(free_port()) + " algorithm=direct ";
}
inline std::string at_aggregator(const DaemonProcess& daemon) {
  return "aggregator=" + daemon.address() + " algorithm=in-network ";
}

}  // namespace sumcast::acceptance
