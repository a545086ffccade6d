// /status: everything in one JSON document, for `sumcast status` and for people with curl.
#include <algorithm>
#include <cstdlib>
#include <optional>

#include "daemon/pages.h"
#include "daemon/shard_metrics.h"
#include "runtime/clock.h"

namespace sumcast::daemon {
namespace {

using nlohmann::json;

/// What one member of a group last said about it.
struct MemberView {
  uint32_t rank = 0;
  bool is_gone = false;  // Dead, or left for good.
  uint64_t posted = 0, completed = 0, age_ms = 0;
  std::string operation;
};

MemberView view_of(const json& job, uint32_t rank, uint32_t group) {
  MemberView view;
  view.rank = rank;
  const json& facts = job.at("ranks").at(rank);
  view.is_gone = facts.at("state") != "live";
  for (const json& activity : facts.at("groups")) {
    if (activity.at("group") != group) continue;
    view.posted = activity.at("posted");
    view.completed = activity.at("completed");
    view.age_ms = activity.at("age_ms");
    view.operation = activity.at("operation");
  }
  return view;
}

json thread_json(const DaemonFacts& facts, size_t thread) {
  const ShardThreadReport& report = facts.threads[thread];
  json counters;
  const auto values = shard_counter_values(report.shard);
  for (size_t id = 0; id < values.size(); ++id) {
    counters[std::string(shard_counter_key(id))] = values[id];
  }
  return {{"thread", thread},
          {"endpoint", facts.shards.at(thread)},
          {"counters", std::move(counters)},
          {"socket_drops", report.socket_drops},
          {"cycles", report.cycles},
          {"cycle_ns_max", report.cycle_max.count()},
          {"cycles_overrun", report.cycles_overrun},
          {"operations_ns", report.shard.operations.count()},
          {"cpu_ns", report.cpu.count()}};
}

}  // namespace

GroupProgress progress_of(const json& job, const json& group) {
  GroupProgress progress;
  std::vector<MemberView> members;
  for (const json& rank : group.at("ranks")) {
    members.push_back(view_of(job, rank.get<uint32_t>(), group.at("group")));
  }
  // Whatever one rank has completed, all have contributed to; so the operation that matters is the
  // one after the furthest. A laggard's own report may be a heartbeat old.
  uint64_t completed = 0, posted = 0;
  for (const MemberView& member : members) {
    completed = std::max(completed, member.completed);
    posted = std::max(posted, member.posted);
  }
  const bool is_under_way = posted > completed;
  progress.sequence = is_under_way ? completed + 1 : completed;
  for (const MemberView& member : members) {
    const bool has_posted = member.posted >= progress.sequence;
    if (has_posted && !member.operation.empty() && progress.operation.empty()) {
      progress.operation = member.operation;
    }
    // A rank that has not heard of its result yet still counts from the operation before.
    if (is_under_way && has_posted && member.completed == completed) {
      progress.operation = member.operation;
      progress.age_ms = std::max(progress.age_ms, member.age_ms);
    }
    if (is_under_way && (!has_posted || member.is_gone)) progress.blocked_on.push_back(member.rank);
  }
  std::ranges::sort(progress.blocked_on);
  if (!group.at("aborted").is_null()) {
    progress.state = "aborted";
  } else if (is_under_way) {
    progress.state = progress.blocked_on.empty() ? "running" : "waiting";
  }
  return progress;
}

Duration waited_for(const DaemonFacts& facts, const json& job, size_t rank) {
  const Incarnation incarnation(static_cast<uint32_t>(
      std::strtoul(job.at("incarnation").get<std::string>().c_str(), nullptr, 16)));
  Duration longest{0};
  for (const ShardThreadReport& report : facts.threads) {
    const auto found = report.waited_for.find(incarnation);
    if (found == report.waited_for.end() || rank >= found->second.size()) continue;
    longest = std::max(longest, found->second[rank]);
  }
  return longest;
}

json status_page(const DaemonFacts& facts) {
  json page = facts.coordinator;
  for (json& job : page.at("jobs")) {
    for (size_t rank = 0; rank < job.at("ranks").size(); ++rank) {
      const Duration waited = waited_for(facts, job, rank);
      job["ranks"][rank]["waited_for_ms"] =
          std::chrono::duration_cast<std::chrono::milliseconds>(waited).count();
    }
    for (json& group : job.at("groups")) {
      const GroupProgress progress = progress_of(job, group);
      group["state"] = progress.state;
      group["sequence"] = progress.sequence;
      group["operation"] = progress.operation;
      group["age_ms"] = progress.age_ms;
      group["blocked_on"] = progress.blocked_on;
    }
  }
  page.erase("endpoint");
  page["program"] = "sumcastd";
  page["version"] = SUMCAST_VERSION;
  page["pid"] = facts.pid;
  page["time"] = runtime::wall_time_text();
  page["uptime_ms"] = std::chrono::duration_cast<std::chrono::milliseconds>(facts.uptime).count();
  page["listen"] = facts.listen;
  page["http"] = facts.http.empty() ? json(nullptr) : json(facts.http);
  page["threads"] = json::array();
  for (size_t thread = 0; thread < facts.threads.size(); ++thread) {
    page["threads"].push_back(thread_json(facts, thread));
  }
  return page;
}

}  // namespace sumcast::daemon
