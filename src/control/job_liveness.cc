// Who is alive, who has left, and the abort that tells the others.
#include <fmt/format.h>

#include <algorithm>

#include "control/job.h"
#include "control/wording.h"

namespace sumcast::control {

namespace {

bool contains(const std::vector<Rank>& ranks, Rank rank) {
  return std::ranges::find(ranks, rank) != ranks.end();
}

}  // namespace

void Job::on_heartbeat(Rank rank, const Heartbeat& heartbeat, Instant now) {
  note_activity(rank, heartbeat.groups, now);
  record(rank).moves = heartbeat.moves;
  for (const GroupActivity& activity : heartbeat.groups) {
    Group* group = find_group(activity.group, rank);
    if (group == nullptr) continue;
    check_left(*group);
    notice_operation(*group, rank, now);
  }
  notice_pending(now);
  // Requests are numbered upwards: what answers a later one is fresh enough for an earlier one.
  for (auto& [id, group] : groups_) {
    if (group.inquiry && group.inquiry->overdue && heartbeat.request >= group.inquiry->request) {
      note_answer(group, rank, now);
    }
  }
}

void Job::note_activity(Rank rank, const std::vector<GroupActivity>& groups, Instant now) {
  for (const GroupActivity& activity : groups) {
    if (find_group(activity.group, rank) == nullptr) continue;
    const auto [place, is_new] = record(rank).activities.try_emplace(activity.group);
    Activity& known = place->second;
    if (is_new || known.reported.completed != activity.completed) known.completed_at = now;
    known.reported = activity;
    known.at = now;
  }
}

/// Aborts the group if somebody waits for an operation that a rank which left never posted.
void Job::check_left(Group& group) {
  if (group.aborted) return;
  const GroupId id = group.plan.group;
  for (const Rank gone : group.plan.ranks) {
    if (record(gone).state != RankState::kLeft) continue;
    const uint64_t last = posted(gone, id);
    for (const Rank rank : live_members(group)) {
      if (posted(rank, id) <= last) continue;
      const GroupActivity& waiting = record(rank).activities.at(id).reported;
      // The text is that of the oldest incomplete operation, which may be an earlier one.
      const uint64_t oldest = std::min(waiting.completed + 1, waiting.posted);
      const std::string_view operation = oldest > last ? waiting.operation : std::string_view();
      return abort_group(
          group,
          Error{ErrorCode::kAborted,
                fmt::format("{} left, but {} waits for it", who(gone),
                            operation_text(operation, std::max(oldest, last + 1), id))},
          {gone});
    }
  }
}

/// "all_reduce #12 on group 0, begun 35 ms ago": the newest thing that the rank reported.
std::string Job::last_operation(Rank rank, Instant now) const {
  const Activity* newest = nullptr;
  for (const auto& [id, activity] : record(rank).activities) {
    if (activity.reported.posted == 0) continue;
    if (newest == nullptr || activity.reported.age < newest->reported.age) newest = &activity;
  }
  if (newest == nullptr) return "it had posted no operation yet";
  const GroupActivity& last = newest->reported;
  const bool complete = last.completed >= last.posted;
  return fmt::format(
      "its last operation: {}, {} {} ago",
      operation_text(last.operation, complete ? last.posted : last.completed + 1, last.group),
      complete ? "completed" : "begun", span_text(last.age + (now - newest->at)));
}

/// All of `ranks` died of one cause at once; each text names all that concern the group.
void Job::die(const std::vector<Rank>& ranks, std::string_view cause, Instant now) {
  std::vector<std::string> obituaries;
  for (const Rank rank : ranks) {
    record(rank).state = RankState::kDead;
    ++counters_.deaths;
    // One that was only silent hears why it is hung up on.
    tell(rank, Abort{std::nullopt,
                     ErrorCode::kAborted,
                     fmt::format("the coordinator at {} has given {} up: {}", config_.where,
                                 who(rank), cause),
                     {rank}});
    hang_up(rank);
    obituaries.push_back(
        fmt::format("{} died: {}; {}", who(rank), cause, last_operation(rank, now)));
  }
  for (auto& [id, group] : groups_) {
    std::vector<Rank> dead;
    std::string text;
    for (size_t i = 0; i < ranks.size(); ++i) {
      if (!is_member(group, ranks[i])) continue;
      dead.push_back(ranks[i]);
      text += (text.empty() ? "" : "; ") + obituaries[i];
    }
    if (!dead.empty()) abort_group(group, Error{ErrorCode::kAborted, text}, dead);
  }
  drop_pending_of(ranks, obituaries.front());
  forget(ranks);
}

void Job::on_disconnected(Rank rank, ConnectionId connection, std::string_view cause, Instant now) {
  RankRecord& gone = record(rank);
  if (gone.connection != connection) return;  // We hung up ourselves.
  gone.connection.reset();
  if (gone.state == RankState::kWaiting) {
    gone = RankRecord{};
    gone.went_away = true;
  } else if (gone.state == RankState::kLive) {
    die({rank}, cause, now);
  }
}

void Job::on_leave(Rank rank, const Leave& leave, Instant now) {
  note_activity(rank, leave.groups, now);
  record(rank).state = RankState::kLeft;
  Left left{rank, {}};
  for (const auto& [id, activity] : record(rank).activities) {
    left.groups.push_back(LeftGroup{id, activity.reported.completed});
  }
  tell(ranks_in(RankState::kLive), left);
  for (auto& [id, group] : groups_) {
    if (is_member(group, rank)) check_left(group);
  }
  drop_pending_of({rank}, who(rank) + " left");
  forget({rank});
}

/// Once per group: the first reason stands. The group still owns its slots until all close it.
void Job::abort_group(Group& group, const Error& error, const std::vector<Rank>& ranks) {
  if (group.aborted) return;
  ++counters_.aborts;
  std::vector<Rank> users = live_members(group);
  std::erase_if(users, [&](Rank rank) { return group.closed.contains(rank); });
  tell(users, Abort{group.plan.group, error.code, error.what, ranks});
  group.aborted = error;
  group.inquiry.reset();
  for (auto& [key, pending] : pending_) {
    // Its leaders need not wait for one that will not come any more.
    if (pending.leaders_of == group.plan.group && !pending.failure) {
      fail_pending(key, pending, error);
    }
  }
  for (auto& [id, other] : groups_) {
    const bool one_fate = other.leaders_of == group.plan.group || group.leaders_of == id;
    if (one_fate) abort_group(other, error, ranks);
  }
}

/// `gone` use nothing any more: groups that only they held are released, and the job ends with the
/// last rank.
void Job::forget(const std::vector<Rank>& gone) {
  std::vector<GroupId> concerned;
  for (auto& [id, group] : groups_) {
    const bool is_concerned =
        std::ranges::any_of(group.plan.ranks, [&](Rank rank) { return contains(gone, rank); });
    if (is_concerned) concerned.push_back(id);
  }
  for (const GroupId id : concerned) release_if_closed(id);
  if (!ranks_in(RankState::kLive).empty()) return;
  tell(ranks_in(RankState::kLeft), Goodbye{});
  for (const Rank rank : ranks_in(RankState::kLeft)) hang_up(rank);
  ended_ = true;
  ++counters_.jobs_ended;
  sink_.job_ended(incarnation_);
}

void Job::on_shutdown() {
  const Error error{ErrorCode::kAborted,
                    fmt::format("the coordinator at {} is shutting down", config_.where)};
  if (incarnation_.value == 0) return refuse_waiting(error);
  const std::vector<Rank> live = ranks_in(RankState::kLive);
  tell(live, Abort{std::nullopt, error.code, error.what, {}});
  for (const Rank rank : live) record(rank).state = RankState::kLeft;
  forget(live);
}

}  // namespace sumcast::control
