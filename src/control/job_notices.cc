// Whoever waits for long hears for what (P10), long before any deadline: no hang should be silent.
//
// Only the coordinator knows who is missing, so it says; each rank that waits puts the text into
// its own log. First after 5 s of joining, after 30 s of an operation or of opening a group, then
// each time the wait has doubled. Joins keep a timer; the rest rides on heartbeats.
#include <fmt/format.h>

#include <algorithm>

#include "control/job.h"
#include "control/wording.h"

namespace sumcast::control {

void Job::notice_joining(Instant now) {
  Instant deadline = Instant::never();  // The first one's is everybody's.
  for (const RankRecord& rank : ranks_) {
    if (rank.state == RankState::kWaiting) deadline = std::min(deadline, rank.join_deadline);
  }
  for (RankRecord& rank : ranks_) {
    if (rank.state != RankState::kWaiting || now < rank.notice_at) continue;
    const Duration waited = now - rank.joined_at;
    rank.notice_at = now + waited;
    const std::vector<Rank> missing = ranks_in(RankState::kAbsent);
    const std::string text = fmt::format(
        "rank {} has waited {} to join job \"{}\" at {}: {} of {} workers {} missing: {}{}; it "
        "gives up in {}",
        rank.member.rank.value, span_text(waited), name_, config_.where, missing.size(),
        ranks_.size(), missing.size() == 1 ? "is" : "are", ranks_text(missing),
        came_and_went_text(), span_text(deadline - now));
    tell(rank.member.rank, Waiting{std::nullopt, text});
  }
}

void Job::notice_pending(Instant now) {
  for (auto& [key, pending] : pending_) {
    if (pending.failure || now < pending.notice_at) continue;
    const Duration waited = now - pending.begun;
    pending.notice_at = now + waited;
    std::vector<Rank> asked, missing;
    for (const Rank rank : pending.ranks) {
      (pending.asked.contains(rank) ? asked : missing).push_back(rank);
    }
    std::ranges::sort(missing);
    tell(asked, Waiting{std::nullopt,
                        fmt::format("group \"{}\" has waited {} for {} of {} ranks to open it: {}; "
                                    "it gives up in {}",
                                    key, span_text(waited), missing.size(), pending.ranks.size(),
                                    ranks_text(missing), span_text(pending.deadline - now))});
  }
}

/// `rank` has just reported what it does in the group.
void Job::notice_operation(Group& group, Rank rank, Instant now) {
  const GroupId id = group.plan.group;
  const Activity& activity = record(rank).activities.at(id);
  const GroupActivity& own = activity.reported;
  // In a queue of operations each waits only from the end of the one before.
  const Duration waited = std::min<Duration>(own.age, now - activity.completed_at);
  // What the leaders of hosts carry is told as the operation that it belongs to.
  if (own.posted <= own.completed || waited < config_.notice || group.aborted || group.leaders_of) {
    return;
  }
  const uint64_t sequence = own.completed + 1;
  if (sequence <= group.noticed && now < group.notice_at) return;
  group.noticed = std::max(group.noticed, sequence);
  group.notice_at = now + waited;
  std::vector<Rank> waiting, missing;
  milliseconds left = own.left;
  for (const Rank member : group.plan.ranks) {
    if (posted(member, id) < sequence) {
      missing.push_back(member);
      continue;
    }
    const GroupActivity& one = record(member).activities.at(id).reported;
    if (one.completed >= sequence || !is_live(member)) continue;
    waiting.push_back(member);
    if (one.left.count() > 0 && (left.count() == 0 || one.left < left)) left = one.left;
  }
  std::ranges::sort(missing);
  std::string text = fmt::format("{} has waited {} ", operation_text(own.operation, sequence, id),
                                 span_text(waited));
  if (missing.empty()) {
    text += fmt::format(
        "though all {} ranks have posted it: a slow path, or something between "
        "them is overloaded",
        group.plan.ranks.size());
  } else {
    text += "for " + missing_text(group, missing, now);
  }
  if (left.count() > 0) text += fmt::format("; it fails in {}", span_text(left));
  tell(waiting, Waiting{id, std::move(text)});
}

}  // namespace sumcast::control
