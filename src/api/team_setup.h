// Which ranks share memory, and how a group comes to its team.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "api/team_runner.h"
#include "auth/secret.h"
#include "control/client.h"
#include "host/handover.h"

namespace sumcast::api {

/// Tries shared memory with all ranks of the job that name this rank's host (control/identity.h).
///
/// @param deadline  of the trial.
/// @return why this rank cannot share; empty if it can, or is alone there.
std::string probe_shared_memory(const control::Welcome& welcome, Rank me,
                                const std::optional<auth::Key>& key, Instant deadline,
                                const host::GiveUp& give_up);

/// What opening a team needs of its context.
struct TeamContext {
  const std::optional<auth::Key>& key;
  collective::Engine& engine;
  control::ControlClient& client;
  const control::OpenGroup& request;  ///< How the group itself was opened.
  Duration look;                      ///< As TeamRunner takes it.
};

/// The group's layout, if it is sound and any host has several of its ranks; else nothing.
/// Errors: kInternal, a coordinator's plan that makes no sense.
Result<std::optional<host::Layout>> shared_layout(const control::GroupPlan& plan, Rank me);

/// Opens the team of a group together with the other ranks of this host and, through the leaders,
/// with the other hosts. After an error nothing is left open but the group itself.
Result<std::shared_ptr<TeamRunner>> open_team(const TeamContext& context,
                                              const control::GroupPlan& plan, host::Layout layout,
                                              Instant deadline, TeamReports reports);

}  // namespace sumcast::api
