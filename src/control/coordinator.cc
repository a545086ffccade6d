#include "control/coordinator.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/assert.h"
#include "control/job.h"

namespace sumcast::control {

Coordinator::Coordinator(CoordinatorConfig config, CoordinatorSink& sink)
    : config_(std::move(config)), sink_(sink) {}

Coordinator::~Coordinator() = default;

void Coordinator::on_connected(ConnectionId connection, std::string address, Instant now) {
  const bool is_new =
      connections_
          .emplace(connection,
                   Connection{std::move(address), now + config_.join_wait, false, nullptr, {}})
          .second;
  SUMCAST_ASSERT(is_new);
}

void Coordinator::on_message(ConnectionId id, const ClientMessage& message, Instant now) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;  // Closed by us; its last words do not matter.
  Connection& connection = found->second;
  const Join* join = std::get_if<Join>(&message);
  if (join != nullptr && !connection.asked) {
    connection.asked = true;
    connection.join_deadline = Instant::never();
    on_join(id, connection, *join, now);
  } else if (join == nullptr && connection.job != nullptr) {
    connection.job->on_message(connection.rank, message, now);
  } else if (join != nullptr || !connection.asked) {
    ++counters_.violations;  // A second join, or something else before the first.
    sink_.close(id);
  }  // Else its job is over and the connection is being closed.
  bury_jobs();
}

void Coordinator::on_join(ConnectionId id, Connection& connection, const Join& join, Instant now) {
  if (auto sane = Job::check(config_, join); !sane) return refuse(id, sane.error());
  auto found = jobs_.find(join.job);
  if (found == jobs_.end()) {
    if (jobs_.size() >= config_.jobs_max) {
      return refuse(id, Error{ErrorCode::kUnavailable, fmt::format("{} runs {} jobs, its limit",
                                                                   config_.where, jobs_.size())});
    }
    found = jobs_.emplace(join.job, std::make_unique<Job>(config_, sink_, counters_, join)).first;
  }
  Job& job = *found->second;
  if (auto admitted = job.admit(id, join, connection.address, now); !admitted) {
    return refuse(id, admitted.error());
  }
  connection.job = &job;
  connection.rank = join.rank;
  job.start_if_complete(now);
}

void Coordinator::refuse(ConnectionId id, const Error& error) {
  ++counters_.joins_refused;
  sink_.send(std::span(&id, 1), Refused{"", error.code, error.what});
  sink_.close(id);
}

void Coordinator::on_disconnected(ConnectionId id, std::string_view cause, Instant now) {
  const auto found = connections_.find(id);
  SUMCAST_ASSERT(found != connections_.end());
  const Connection connection = std::move(found->second);
  connections_.erase(found);
  if (connection.job != nullptr) {
    connection.job->on_disconnected(connection.rank, id, cause, now);
    bury_jobs();
  }
}

void Coordinator::on_mismatch(Incarnation incarnation, const Mismatch& mismatch, Instant now) {
  for (auto& [name, job] : jobs_) {
    if (job->incarnation() == incarnation) job->on_mismatch(mismatch, now);
  }
}

void Coordinator::on_timeout(Instant now) {
  for (auto& [id, connection] : connections_) {
    if (now < connection.join_deadline) continue;
    connection.join_deadline = Instant::never();
    sink_.close(id);
  }
  for (auto& [name, job] : jobs_) job->on_timeout(now);
  bury_jobs();
}

void Coordinator::on_pause(Duration span, Instant now) {
  for (auto& [name, job] : jobs_) job->on_pause(span, now);
}

void Coordinator::on_shutdown() {
  for (auto& [name, job] : jobs_) job->on_shutdown();
  bury_jobs();
}

/// Forgets the jobs that are over. Connections of theirs that are not closed yet belong to none.
void Coordinator::bury_jobs() {
  for (auto job = jobs_.begin(); job != jobs_.end();) {
    if (!job->second->is_over()) {
      ++job;
      continue;
    }
    for (auto& [id, connection] : connections_) {
      if (connection.job == job->second.get()) connection.job = nullptr;
    }
    job = jobs_.erase(job);
  }
}

Instant Coordinator::next_deadline() const {
  Instant next = Instant::never();
  for (const auto& [id, connection] : connections_) {
    next = std::min(next, connection.join_deadline);
  }
  for (const auto& [name, job] : jobs_) next = std::min(next, job->next_deadline());
  return next;
}

CoordinatorStatus Coordinator::status(Instant now) const {
  CoordinatorStatus status;
  status.counters = counters_;
  for (const auto& [name, job] : jobs_) status.jobs.push_back(job->status(now));
  return status;
}

std::string_view name_of(RankState state) {
  switch (state) {
    case RankState::kAbsent:
      return "absent";
    case RankState::kWaiting:
      return "waiting";
    case RankState::kLive:
      return "live";
    case RankState::kLeft:
      return "left";
    case RankState::kDead:
      return "dead";
  }
  return "unknown";
}

}  // namespace sumcast::control
