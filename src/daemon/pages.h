// What the daemon shows of itself: /status as JSON and /metrics as Prometheus' text.
//
// Pure functions of facts that somebody else gathered, so that the pages can be tested with
// situations that are hard to bring about. They do not know HTTP.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/time.h"
#include "daemon/shard_thread.h"

namespace sumcast::daemon {

/// A daemon at one moment.
struct DaemonFacts {
  int64_t pid = 0;
  Duration uptime{0};
  std::string listen;               ///< "0.0.0.0:4700".
  std::string http;                 ///< Empty: none.
  std::vector<std::string> shards;  ///< Data endpoints, by thread.
  std::vector<ShardThreadReport> threads;
  nlohmann::json coordinator;  ///< control::CoordinatorServer::status_json().
};

/// Where a group stands, judged from what its ranks last reported.
struct GroupProgress {
  /// "idle", "running" (all ranks have posted the operation), "waiting" (some have not) or
  /// "aborted".
  std::string state = "idle";
  uint64_t sequence = 0;  ///< Of the operation under way, or of the last one if idle; 0: none yet.
  std::string operation;  ///< "all_reduce f32[1000] sum".
  uint64_t age_ms = 0;    ///< Since the first rank began it; 0 if idle.
  std::vector<uint32_t> blocked_on;  ///< Ranks that have not posted it, or are gone. Ascending.
};

/// @param job    an element of the coordinator's "jobs".
/// @param group  an element of its "groups".
GroupProgress progress_of(const nlohmann::json& job, const nlohmann::json& group);

/// How long the others of its groups have waited for this rank in all, as the thread says that
/// waited longest: each sees its own part of the same operations.
/// @param job  an element of the coordinator's "jobs".
Duration waited_for(const DaemonFacts& facts, const nlohmann::json& job, size_t rank);

/// The coordinator's JSON with the daemon's facts and each group's progress added.
nlohmann::json status_page(const DaemonFacts& facts);

std::string metrics_page(const DaemonFacts& facts);

}  // namespace sumcast::daemon
