// The front of the server: starting, stopping, and status as JSON.
#include "control/server.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "control/server_loop.h"
#include "runtime/clock.h"

namespace sumcast::control {

namespace {

using nlohmann::json;

/// Whole milliseconds, as all ages are given.
int64_t in_milliseconds(Duration span) {
  return std::chrono::duration_cast<milliseconds>(span).count();
}

json rank_values(const std::vector<Rank>& ranks) {
  json list = json::array();
  for (const Rank rank : ranks) list.push_back(rank.value);
  return list;
}

json rank_json(const RankStatus& rank, size_t number) {
  json groups = json::array();
  for (const GroupActivity& activity : rank.groups) {
    groups.push_back({{"group", activity.group.value},
                      {"posted", activity.posted},
                      {"completed", activity.completed},
                      {"operation", activity.operation},
                      {"age_ms", activity.age.count()},
                      {"left_ms", activity.left.count()},
                      {"tag", activity.tag}});
  }
  return {{"rank", number},
          {"state", name_of(rank.state)},
          {"name", rank.member.name},
          {"address", rank.member.address},
          {"tag", rank.member.tag},
          {"silent_ms", in_milliseconds(rank.silent)},
          {"alone", rank.alone},
          {"failovers", rank.moves.failovers},
          {"returns", rank.moves.returns},
          {"groups", std::move(groups)}};
}

json group_json(const GroupStatus& group) {
  return {{"group", group.group.value},
          {"key", group.key},
          {"ranks", rank_values(group.ranks)},
          {"slot_base", group.slot_base},
          {"slot_count", group.slot_count},
          {"hosts", group.hosts},
          {"payload_bytes", group.payload_bytes},
          {"aborted", group.aborted ? json(group.aborted->what) : json(nullptr)}};
}

json job_json(const JobStatus& job) {
  json ranks = json::array();
  for (size_t i = 0; i < job.ranks.size(); ++i) ranks.push_back(rank_json(job.ranks[i], i));
  json groups = json::array();
  for (const GroupStatus& group : job.groups) groups.push_back(group_json(group));
  return {{"name", job.name},
          {"state", job.running ? "running" : "joining"},
          {"incarnation", fmt::format("{:08x}", job.incarnation.value)},
          {"world", job.ranks.size()},
          {"slots", job.slots},
          {"slots_in_use", job.slots_in_use},
          {"ranks", std::move(ranks)},
          {"groups", std::move(groups)},
          {"groups_pending", job.groups_pending}};
}

}  // namespace

json ServerLoop::status_json() const {
  const std::lock_guard lock(mutex_);
  const CoordinatorStatus status = coordinator_.status(runtime::monotonic_now());
  json jobs = json::array();
  for (const JobStatus& job : status.jobs) jobs.push_back(job_json(job));
  const CoordinatorCounters& jobs_count = status.counters;
  return {{"endpoint", listener_.local().text()},
          {"sealed", options_.key.has_value()},
          {"connections", peers_.size()},
          {"jobs", std::move(jobs)},
          {"counters",
           {{"jobs_started", jobs_count.jobs_started},
            {"jobs_ended", jobs_count.jobs_ended},
            {"joins_refused", jobs_count.joins_refused},
            {"groups_opened", jobs_count.groups_opened},
            {"groups_refused", jobs_count.groups_refused},
            {"aborts", jobs_count.aborts},
            {"deaths", jobs_count.deaths},
            {"violations", jobs_count.violations},
            {"connections_accepted", counters_.accepted},
            {"connections_authenticated", counters_.authenticated},
            {"denied_wrong_key", counters_.wrong_key},
            {"denied_wrong_hello", counters_.wrong_hello},
            {"strangers_timed_out", counters_.timed_out},
            {"strangers_crowded_out", counters_.crowded_out},
            {"frames_malformed", counters_.malformed}}}};
}

Result<std::unique_ptr<CoordinatorServer>> CoordinatorServer::start(ServerOptions options,
                                                                    JobObserver& observer) {
  net::TcpOptions stranger = member_tcp_options();
  stranger.frame_bytes_max = kStrangerFrameBytesMax;
  auto listener = net::TcpListener::open(options.listen, stranger);
  if (!listener) return fail(listener.error().within("the coordinator cannot listen"));
  auto poller = net::Poller::create();
  if (!poller) return fail(std::move(poller.error()));
  auto wake_up = net::WakeUp::create();
  if (!wake_up) return fail(std::move(wake_up.error()));
  if (options.coordinator.where.empty()) options.coordinator.where = listener->local().text();
  auto loop = std::make_unique<ServerLoop>(std::move(options), observer, std::move(*listener),
                                           std::move(*poller), std::move(*wake_up));
  if (auto started = loop->start(); !started) return fail(std::move(started.error()));
  return std::unique_ptr<CoordinatorServer>(new CoordinatorServer(std::move(loop)));
}

CoordinatorServer::CoordinatorServer(std::unique_ptr<ServerLoop> loop) : loop_(std::move(loop)) {}

CoordinatorServer::~CoordinatorServer() = default;

const net::Endpoint& CoordinatorServer::endpoint() const { return loop_->endpoint(); }

void CoordinatorServer::report_mismatch(Incarnation incarnation, const Mismatch& mismatch) {
  loop_->report_mismatch(incarnation, mismatch);
}

json CoordinatorServer::status_json() const { return loop_->status_json(); }

void CoordinatorServer::stop() { loop_->stop(); }

}  // namespace sumcast::control
