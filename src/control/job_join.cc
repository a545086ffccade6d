// Admission: ranks wait until the world is complete, or until the first deadline among them.
#include <fmt/format.h>

#include <algorithm>

#include "base/assert.h"
#include "control/job.h"
#include "control/wording.h"

namespace sumcast::control {

namespace {

/// Members' texts go out to all ranks at once: a world of them must fit a frame.
constexpr size_t kNameBytesMax = 255;

/// A welcome grows with the world, and where hundreds of ranks share a few cores they all read it
/// at once: so much longer, for each rank of the world, may the first heartbeat take.
constexpr Duration kFirstBeatTime = 10ms;

}  // namespace

Result<void> Job::check(const CoordinatorConfig& config, const Join& join) {
  const auto wrong = [](std::string what) {
    return fail(ErrorCode::kInvalidArgument, std::move(what));
  };
  if (join.job.empty()) return wrong("the job's name is empty");
  if (join.world == 0 || join.world > config.world_max) {
    return wrong(fmt::format("a world of {} ranks is outside 1..{}", join.world, config.world_max));
  }
  if (join.rank.value >= join.world) {
    return wrong(fmt::format("rank {} is outside a world of {}", join.rank.value, join.world));
  }
  for (const std::string* text :
       {&join.job, &join.host, &join.name, &join.shard, &join.mesh, &join.tag}) {
    if (text->size() > kNameBytesMax) {
      return wrong(
          fmt::format("\"{}...\" is longer than {} bytes", text->substr(0, 20), kNameBytesMax));
    }
  }
  return {};
}

Result<void> Job::admit(ConnectionId connection, const Join& join, const std::string& address,
                        Instant now) {
  if (incarnation_.value != 0) {
    return fail(
        ErrorCode::kInvalidArgument,
        fmt::format("job \"{}\" is already running at {} with {} of {} workers alive; "
                    "choose another name (SUMCAST_JOB) or end it first",
                    name_, config_.where, ranks_in(RankState::kLive).size(), ranks_.size()));
  }
  if (join.world != ranks_.size()) {
    return fail(
        ErrorCode::kMismatch,
        fmt::format("rank {} joins job \"{}\" with a world of {}, but {} joined with a world of {}",
                    join.rank.value, name_, join.world, ranks_text(ranks_in(RankState::kWaiting)),
                    ranks_.size()));
  }
  RankRecord& rank = record(join.rank);
  if (rank.state == RankState::kWaiting) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{} has already joined job \"{}\"", who(join.rank), name_));
  }
  rank.state = RankState::kWaiting;
  rank.connection = connection;
  rank.member = Member{join.rank, join.host, join.name, join.shard, join.mesh, address, join.tag};
  rank.joined_at = now;
  rank.heard_at = now;
  rank.join_deadline = now + join.timeout;
  rank.notice_at = now + config_.notice_join;
  return {};
}

void Job::start_if_complete(Instant now) {
  if (incarnation_.value != 0) return;
  if (ranks_in(RankState::kWaiting).size() != ranks_.size()) return;
  incarnation_ = sink_.fresh_incarnation();
  SUMCAST_ASSERT(incarnation_.value != 0);
  JobPlan plan{incarnation_, epoch_, name_, {}, slots_.size()};
  for (RankRecord& rank : ranks_) {
    rank.state = RankState::kLive;
    rank.heard_at = now + kFirstBeatTime * static_cast<int>(ranks_.size());
    plan.members.push_back(rank.member);
  }
  ++counters_.jobs_started;
  sink_.job_started(plan);
  const Welcome welcome{incarnation_, epoch_, plan.members, config_.shards,
                        std::chrono::floor<milliseconds>(config_.heartbeat)};
  tell(ranks_in(RankState::kLive), welcome);
}

/// The same refusal for everybody who waits; the job is over with that.
void Job::refuse_waiting(const Error& error) {
  const std::vector<Rank> waiting = ranks_in(RankState::kWaiting);
  tell(waiting, Refused{"", error.code, error.what});
  for (const Rank rank : waiting) {
    ++counters_.joins_refused;
    hang_up(rank);
    record(rank) = RankRecord{};
  }
}

/// Who is missing, as the error for those who wait.
Error Job::absence(Instant now) const {
  const std::vector<Rank> missing = ranks_in(RankState::kAbsent);
  Instant since = now;
  for (const RankRecord& rank : ranks_) {
    if (rank.state == RankState::kWaiting) since = std::min(since, rank.joined_at);
  }
  const std::string text = fmt::format(
      "waiting for {} of {} workers: {} never joined job \"{}\" at {} (waited {})", missing.size(),
      ranks_.size(), ranks_text(missing), name_, config_.where, span_text(now - since));
  return Error{ErrorCode::kTimeout, text + came_and_went_text()};
}

/// "; rank 5 had come and went away again" of those that are not there; empty if there are none.
std::string Job::came_and_went_text() const {
  std::vector<Rank> ranks;
  for (const Rank rank : ranks_in(RankState::kAbsent)) {
    if (record(rank).went_away) ranks.push_back(rank);
  }
  return ranks.empty() ? "" : fmt::format("; {} had come and went away again", ranks_text(ranks));
}

}  // namespace sumcast::control
