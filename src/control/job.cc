// Dispatch, time, words about a rank, and status.
#include "control/job.h"

#include <fmt/format.h>

#include <algorithm>

#include "control/wording.h"

namespace sumcast::control {

Job::Job(const CoordinatorConfig& config, CoordinatorSink& sink, CoordinatorCounters& counters,
         const Join& first)
    : config_(config),
      sink_(sink),
      counters_(counters),
      name_(first.job),
      ranks_(first.world),
      slots_(config.slots_per_job) {}

void Job::on_message(Rank rank, const ClientMessage& message, Instant now) {
  if (!is_live(rank)) return;  // It waits, has left, or is about to be hung up on.
  record(rank).heard_at = now;
  if (const auto* open = std::get_if<OpenGroup>(&message)) return on_open(rank, *open, now);
  if (const auto* close = std::get_if<CloseGroup>(&message)) return on_close(rank, close->group);
  if (const auto* beat = std::get_if<Heartbeat>(&message)) return on_heartbeat(rank, *beat, now);
  if (const auto* overdue = std::get_if<Overdue>(&message)) return on_overdue(rank, *overdue, now);
  if (const auto* mismatch = std::get_if<Mismatch>(&message)) return on_mismatch(*mismatch, now);
  if (const auto* give_up = std::get_if<GiveUp>(&message)) return on_give_up(rank, *give_up);
  if (const auto* leave = std::get_if<Leave>(&message)) return on_leave(rank, *leave, now);
  if (const auto* text = std::get_if<Description>(&message)) {
    return on_description(rank, *text, now);
  }
}

void Job::on_timeout(Instant now) {
  if (incarnation_.value == 0) {
    for (const RankRecord& rank : ranks_) {
      if (rank.state != RankState::kWaiting || now < rank.join_deadline) continue;
      return refuse_waiting(absence(now));
    }
    return notice_joining(now);
  }
  std::vector<Rank> silent;
  for (const Rank rank : ranks_in(RankState::kLive)) {
    if (now >= record(rank).heard_at + config_.death) silent.push_back(rank);
  }
  if (!silent.empty()) {
    die(silent, fmt::format("no heartbeat for {}", span_text(config_.death)), now);
  }
  expire_pending(now);
  for (auto& [id, group] : groups_) {
    if (group.inquiry && now >= group.inquiry->deadline) conclude(group, now);
  }
}

void Job::on_pause(Duration span, Instant now) {
  for (RankRecord& rank : ranks_) {
    if (rank.state != RankState::kLive) continue;
    rank.heard_at = std::max(rank.heard_at, std::min(now, rank.heard_at + span));
  }
}

Instant Job::next_deadline() const {
  Instant next = Instant::never();
  for (const RankRecord& rank : ranks_) {
    if (rank.state == RankState::kWaiting) {
      next = std::min({next, rank.join_deadline, rank.notice_at});
    }
    if (rank.state == RankState::kLive) next = std::min(next, rank.heard_at + config_.death);
  }
  for (const auto& [key, pending] : pending_) next = std::min(next, pending.deadline);
  for (const auto& [id, group] : groups_) {
    if (group.inquiry) next = std::min(next, group.inquiry->deadline);
  }
  return next;
}

bool Job::is_over() const {
  if (incarnation_.value != 0) return ended_;
  return ranks_in(RankState::kWaiting).empty();
}

bool Job::is_member(const Group& group, Rank rank) const {
  return std::ranges::find(group.plan.ranks, rank) != group.plan.ranks.end();
}

/// The open group of that id if `member` belongs to it, else null: a message about a group that
/// was closed meanwhile is no error.
Job::Group* Job::find_group(GroupId group, Rank member) {
  const auto found = groups_.find(group);
  if (found == groups_.end() || !is_member(found->second, member)) return nullptr;
  return &found->second;
}

std::vector<Rank> Job::ranks_in(RankState state) const {
  std::vector<Rank> found;
  for (size_t i = 0; i < ranks_.size(); ++i) {
    if (ranks_[i].state == state) found.push_back(Rank(static_cast<uint16_t>(i)));
  }
  return found;
}

/// In ascending order, whatever the group's.
std::vector<Rank> Job::live_members(const Group& group) const {
  std::vector<Rank> live;
  for (const Rank rank : group.plan.ranks) {
    if (is_live(rank)) live.push_back(rank);
  }
  std::ranges::sort(live);
  return live;
}

/// Number of the newest operation that `rank` is known to have posted there.
uint64_t Job::posted(Rank rank, GroupId group) const {
  const auto found = record(rank).activities.find(group);
  return found == record(rank).activities.end() ? 0 : found->second.reported.posted;
}

void Job::tell(Rank rank, const ServerMessage& message) { tell(std::vector<Rank>{rank}, message); }

void Job::tell(const std::vector<Rank>& ranks, const ServerMessage& message) {
  std::vector<ConnectionId> connections;
  for (const Rank rank : ranks) {
    if (record(rank).connection) connections.push_back(*record(rank).connection);
  }
  if (!connections.empty()) sink_.send(connections, message);
}

void Job::hang_up(Rank rank) {
  if (record(rank).connection) sink_.close(*record(rank).connection);
  record(rank).connection.reset();
}

/// "rank 2 (trainer-7:4242 at 10.0.0.3)".
std::string Job::who(Rank rank) const {
  const Member& member = record(rank).member;
  return fmt::format("rank {} ({} at {})", rank.value, member.name, member.address);
}

JobStatus Job::status(Instant now) const {
  JobStatus status;
  status.name = name_;
  status.running = incarnation_.value != 0;
  status.incarnation = incarnation_;
  status.slots = slots_.size();
  status.slots_in_use = slots_.in_use();
  for (const RankRecord& rank : ranks_) {
    RankStatus& row = status.ranks.emplace_back();
    row.state = rank.state;
    row.member = rank.member;
    row.alone = rank.alone;
    row.moves = rank.moves;
    if (rank.heard_at.is_set()) row.silent = std::max<Duration>(0ns, now - rank.heard_at);
    for (const auto& [id, activity] : rank.activities) {
      row.groups.push_back(activity.reported);
      GroupActivity& shown = row.groups.back();
      const auto since = std::chrono::floor<milliseconds>(now - activity.at);
      shown.age += since;
      if (shown.left.count() > 0) shown.left = std::max(milliseconds(1), shown.left - since);
    }
  }
  for (const auto& [id, group] : groups_) {
    status.groups.push_back(GroupStatus{id, group.plan.key, group.plan.ranks, group.slots.base,
                                        group.slots.count, group.plan.payload_bytes,
                                        group.plan.hosts, group.aborted});
  }
  for (const auto& [key, pending] : pending_) {
    if (!pending.failure) status.groups_pending.push_back(key);
  }
  return status;
}

}  // namespace sumcast::control
