// Ranks of one host: whether they can share memory, and the lanes of groups that do.
#include <fmt/format.h>

#include <algorithm>

#include "api/context_state.h"
#include "api/host_setup.h"
#include "control/identity.h"
#include "runtime/clock.h"
#include "runtime/log.h"

namespace sumcast {
namespace {

/// How long ranks of one host try to find together: long for a host where hundreds of them start
/// on few cores, short beside the time they may wait for each other to join.
constexpr Duration kProbePatience = std::chrono::seconds(10);

}  // namespace

std::string Context::Impl::host_name() const {
  std::string name = control::host_identity();
  // Then nobody else has the same.
  if (options.one_rank_per_host) name += fmt::format(":rank {}", options.rank);
  return name;
}

void Context::Impl::probe_host(Instant deadline) {
  const Rank me(static_cast<uint16_t>(options.rank));
  alone = api::probe_shared_memory(client->welcome(), me, key,
                                   std::min(deadline, runtime::monotonic_now() + kProbePatience),
                                   [this] { return client->abort_of(GroupId(0)); });
  if (alone.empty()) return;
  runtime::log_warn(runtime::Subsystem::kControl,
                    "no shared memory with the other ranks of this host: {}; each of them sends "
                    "for itself, which is slower",
                    alone);
}

Result<std::shared_ptr<api::HostLane>> Context::Impl::open_paths(
    const control::GroupPlan& plan, const control::OpenGroup& request) {
  const Rank me(static_cast<uint16_t>(options.rank));
  auto layout = api::shared_layout(plan, me);
  if (!layout) return fail(layout.error());
  if (!*layout) {
    engine->open_group(plan);
    // An abort may have come before the engine knew the group.
    if (const auto aborted = client->abort_of(plan.group)) engine->abort(plan.group, *aborted);
    return std::shared_ptr<api::HostLane>();
  }
  api::LaneReports reports;
  reports.overdue = [this](const control::Overdue& o) { client->report_overdue(o); };
  reports.mismatch = [this](const control::Mismatch& m) { client->report_mismatch(m); };
  auto lane = api::open_lane({key, *engine, *client, request}, plan, std::move(**layout),
                             runtime::monotonic_now() + request.timeout, std::move(reports));
  if (!lane) return lane;
  {
    const std::lock_guard lock(lanes_mutex);
    std::erase_if(lanes, [](const auto& one) { return one.expired(); });
    lanes.push_back(*lane);
  }
  // An abort may have come before the lane was known.
  if (const auto aborted = client->abort_of(plan.group)) abort_lanes(plan.group, *aborted);
  return lane;
}

std::vector<std::shared_ptr<api::HostLane>> Context::Impl::open_lanes() {
  std::vector<std::shared_ptr<api::HostLane>> open;
  const std::lock_guard lock(lanes_mutex);
  for (const auto& one : lanes) {
    if (auto lane = one.lock()) open.push_back(std::move(lane));
  }
  return open;
}

/// Ends the lanes of a group, or of the group of their leaders, or all.
void Context::Impl::abort_lanes(std::optional<GroupId> group, const Error& error) {
  for (const auto& lane : open_lanes()) {
    if (group && lane->group() != *group && lane->leaders() != *group) continue;
    lane->abort(error);
    if (lane->leaders()) engine->abort(*lane->leaders(), error);
  }
}

/// After it nothing of the lane is used any more.
void Context::Impl::close_lane(const std::shared_ptr<api::HostLane>& lane) {
  lane->stop();
  if (!lane->leaders()) return;
  if (client) client->close_group(*lane->leaders());
  engine->close_group(*lane->leaders());
}

void Context::Impl::set_tag(const std::string& text) {
  engine->set_user_tag(text);
  const std::lock_guard lock(lanes_mutex);
  user_tag = text;
}

std::vector<control::GroupActivity> Context::Impl::current_activity() {
  std::vector<control::GroupActivity> all = engine->activity();
  for (const auto& lane : open_lanes()) {
    control::GroupActivity one = lane->activity();
    const std::lock_guard lock(lanes_mutex);
    one.tag = user_tag;
    all.push_back(std::move(one));
  }
  return all;
}

/// Between hosts pieces of operations meet; people know the operations.
std::optional<wire::OperationDescriptor> Context::Impl::find_operation(
    const control::Describe& question) {
  for (const auto& lane : open_lanes()) {
    if (lane->group() != question.group) continue;
    if (auto found = lane->find(question.sequence, question.digest, 0)) return found;
    if (!lane->leaders() || question.sequence != 0) return std::nullopt;
    const auto piece = engine->find_operation(*lane->leaders(), 0, question.digest);
    if (!piece || piece->part_of == 0) return std::nullopt;
    return lane->find(0, 0, piece->part_of);
  }
  return engine->find_operation(question.group, question.sequence, question.digest);
}

}  // namespace sumcast
