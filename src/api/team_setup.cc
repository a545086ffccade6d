#include "api/team_setup.h"

#include <fmt/format.h>

#include <algorithm>

#include "control/plan.h"
#include "host/course.h"
#include "runtime/clock.h"

namespace sumcast::api {
namespace {

/// What the ranks of a host try out together: one counter, and a byte from each.
constexpr std::byte kProbeByte{0x5C};
constexpr Duration kLook = std::chrono::milliseconds(20);
/// The leader's wait for other leaders begins after ours for it; it is the one to give up first.
constexpr Duration kLeaderTime = std::chrono::seconds(2);
static_assert(control::kPlacesMax <= host::kPlacesMax);

/// Waits until all have arrived at `turn`.
Result<void> wait_for_all(const host::Segment& segment, host::Turn& turn, uint32_t arrivals,
                          Instant deadline, const host::GiveUp& give_up) {
  for (;;) {
    const Instant now = runtime::monotonic_now();
    const auto waited = host::wait_for(turn, arrivals, std::min(deadline, now + kLook));
    if (waited == host::Waited::kReached) return {};
    if (waited == host::Waited::kAborted) {
      return fail(segment.aborted().value_or(Error{ErrorCode::kAborted, "the group was ended"}));
    }
    if (const auto reason = give_up()) return fail(*reason);
    if (now >= deadline) {
      return fail(ErrorCode::kTimeout, "the ranks of this host did not find together in time");
    }
  }
}

Result<void> try_out(const host::Meeting& meeting, Instant deadline, const host::GiveUp& give_up) {
  auto segment = host::meet(meeting, deadline, give_up);
  if (!segment) return fail(segment.error());
  *segment->input(meeting.me, 0) = kProbeByte;
  host::Turn& turn = segment->turn(host::Stage::kIn, 0);
  host::arrive(turn, meeting.shape.ranks);
  if (auto r = wait_for_all(*segment, turn, meeting.shape.ranks, deadline, give_up); !r) return r;
  for (uint32_t seat = 0; seat < meeting.shape.ranks; ++seat) {
    if (*segment->input(seat, 0) != kProbeByte) {
      return fail(ErrorCode::kSystem, "what one rank wrote another did not read");
    }
  }
  return {};
}

}  // namespace

std::string probe_shared_memory(const control::Welcome& welcome, Rank me,
                                const std::optional<auth::Key>& key, Instant deadline,
                                const host::GiveUp& give_up) {
  host::Meeting meeting;
  meeting.key = key;
  meeting.incarnation = welcome.incarnation;
  meeting.subject = host::kProbe;
  uint32_t neighbours = 0;
  for (const control::Member& member : welcome.members) {
    if (member.host != welcome.members[me.value].host) continue;
    if (neighbours == 0) meeting.leader = member.rank;
    if (member.rank == me) meeting.me = neighbours;
    ++neighbours;
  }
  if (neighbours == 1) return {};
  if (neighbours > host::kLocalRanksMax) {
    return fmt::format("{} ranks on one host are more than {}", neighbours, host::kLocalRanksMax);
  }
  meeting.shape = {neighbours, 1, 4096};
  const auto tried = try_out(meeting, deadline, give_up);
  return tried ? std::string() : tried.error().what;
}

Result<std::optional<host::Layout>> shared_layout(const control::GroupPlan& plan, Rank me) {
  uint32_t next = 0;
  bool sound = plan.hosts.size() == plan.ranks.size();
  for (const uint32_t host : plan.hosts) {
    sound = sound && host <= next;
    if (host == next) ++next;
  }
  const auto place = std::ranges::find(plan.ranks, me);
  if (!sound || place == plan.ranks.end()) {
    return fail(ErrorCode::kInternal, "the coordinator's plan of hosts makes no sense");
  }
  host::Layout layout(plan.hosts, static_cast<uint32_t>(place - plan.ranks.begin()));
  if (!layout.shares()) return std::optional<host::Layout>{};
  if (layout.hosts() > 1 && uint64_t{layout.hosts()} * layout.seats_max() > host::kPlacesMax) {
    return fail(ErrorCode::kInternal,
                fmt::format("the coordinator shares memory among {} hosts of up to {} ranks, which "
                            "are too many; is it of another version?",
                            layout.hosts(), layout.seats_max()));
  }
  return std::optional(std::move(layout));
}

Result<std::shared_ptr<TeamRunner>> open_team(const TeamContext& context,
                                              const control::GroupPlan& plan, host::Layout layout,
                                              Instant deadline, TeamReports reports) {
  host::Meeting meeting;
  meeting.key = context.key;
  meeting.incarnation = plan.incarnation;
  meeting.subject = plan.group.value;
  meeting.leader = plan.ranks[layout.neighbours().front()];
  meeting.me = layout.my_seat();
  meeting.shape =
      host::Team::shape_for(static_cast<uint32_t>(layout.neighbours().size()), layout.hosts());
  const host::GiveUp give_up = [&] { return context.client.abort_of(plan.group); };
  auto segment = host::meet(meeting, deadline, give_up);
  if (!segment) return fail(segment.error().within("shared memory of this host's ranks"));

  std::optional<GroupId> leaders;
  if (layout.hosts() > 1 && layout.leads()) {
    control::OpenGroup between = context.request;
    between.key = fmt::format("hosts of {} {}", plan.group.value, plan.key);
    between.leaders_of = plan.group;
    between.ranks.clear();
    for (const uint32_t place : layout.leaders()) between.ranks.push_back(plan.ranks[place]);
    auto opened = context.client.open_group(between);
    if (!opened) {
      segment->abort(opened.error());
      return fail(opened.error());
    }
    leaders = opened->group;
    context.engine.open_group(*opened);
    // An abort may have come before the engine knew the group.
    if (const auto aborted = context.client.abort_of(*leaders)) {
      context.engine.abort(*leaders, *aborted);
      segment->abort(*aborted);
    }
    host::arrive(segment->ready(), 1);
  } else if (layout.hosts() > 1) {
    if (auto r = wait_for_all(*segment, segment->ready(), 1, deadline + kLeaderTime, give_up); !r) {
      return fail(r.error());
    }
  }
  return std::make_shared<TeamRunner>(plan, std::move(*segment), std::move(layout), leaders,
                                      context.engine, context.look, std::move(reports));
}

}  // namespace sumcast::api
