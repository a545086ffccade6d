// Ranks of one host: whether they can share memory, and the teams of groups that do.
#include <fmt/format.h>

#include <algorithm>

#include "api/context_state.h"
#include "api/team_setup.h"
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

Result<std::shared_ptr<api::TeamRunner>> Context::Impl::open_paths(
    const control::GroupPlan& plan, const control::OpenGroup& request) {
  const Rank me(static_cast<uint16_t>(options.rank));
  auto layout = api::shared_layout(plan, me);
  if (!layout) return fail(layout.error());
  if (!*layout) {
    engine->open_group(plan);
    return std::shared_ptr<api::TeamRunner>();
  }
  api::TeamReports reports;
  reports.overdue = [this](const control::Overdue& o) { client->report_overdue(o); };
  reports.mismatch = [this](const control::Mismatch& m) { client->report_mismatch(m); };
  reports.give_up = [this, group = plan.group](const Error& error) {
    if (auto* to = client_ready.load()) to->give_up(group, error);
  };
  auto team =
      api::open_team({key, *engine, *client, request, options.spin}, plan, std::move(**layout),
                     runtime::monotonic_now() + request.timeout, std::move(reports));
  if (!team) return team;
  {
    const std::lock_guard lock(teams_mutex);
    std::erase_if(teams, [](const auto& one) { return one.expired(); });
    teams.push_back(*team);
  }
  return team;
}

std::vector<std::shared_ptr<api::TeamRunner>> Context::Impl::open_teams() {
  std::vector<std::shared_ptr<api::TeamRunner>> open;
  const std::lock_guard lock(teams_mutex);
  for (const auto& one : teams) {
    if (auto team = one.lock()) open.push_back(std::move(team));
  }
  return open;
}

/// Ends the teams of a group, or of the group of their leaders, or all.
void Context::Impl::abort_teams(std::optional<GroupId> group, const Error& error) {
  for (const auto& team : open_teams()) {
    if (group && team->group() != *group && team->leaders() != *group) continue;
    team->abort(error);
    if (team->leaders()) engine->abort(*team->leaders(), error);
  }
}

/// After it nothing of the team is used any more.
void Context::Impl::close_team(const std::shared_ptr<api::TeamRunner>& team) {
  team->stop();
  if (!team->leaders()) return;
  note_closing(*team->leaders());
  if (client) client->close_group(*team->leaders());
  engine->close_group(*team->leaders());
}

void Context::Impl::set_tag(const std::string& text) {
  engine->set_user_tag(text);
  const std::lock_guard lock(teams_mutex);
  user_tag = text;
}

std::vector<control::GroupActivity> Context::Impl::current_activity() {
  std::vector<control::GroupActivity> all = engine->activity();
  for (const auto& team : open_teams()) {
    control::GroupActivity one = team->activity();
    const std::lock_guard lock(teams_mutex);
    one.tag = user_tag;
    all.push_back(std::move(one));
  }
  return all;
}

/// Between hosts pieces of operations meet; people know the operations.
std::optional<wire::OperationDescriptor> Context::Impl::find_operation(
    const control::Describe& question) {
  for (const auto& team : open_teams()) {
    if (team->group() != question.group) continue;
    if (auto found = team->find(question.sequence, question.digest, 0)) return found;
    if (!team->leaders() || question.sequence != 0) return std::nullopt;
    const auto piece = engine->find_operation(*team->leaders(), 0, question.digest);
    if (!piece || piece->part_of == 0) return std::nullopt;
    return team->find(0, 0, piece->part_of);
  }
  return engine->find_operation(question.group, question.sequence, question.digest);
}

}  // namespace sumcast
