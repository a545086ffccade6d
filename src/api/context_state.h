// What the public handles refer to. Private to api/.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "api/cost_model.h"
#include "api/team_runner.h"
#include "auth/secret.h"
#include "collective/engine.h"
#include "control/client.h"
#include "control/server.h"
#include "mesh/algorithms.h"
#include "mesh/mesh.h"
#include "mesh/messenger.h"
#include "sumcast/sumcast.hpp"

namespace sumcast {

/// What callers may wait at most: "for ever" must not overflow when it is added to now.
inline Duration bounded(std::chrono::nanoseconds timeout) {
  return std::min<Duration>(timeout, std::chrono::hours(24 * 365));
}

/// How long an abort may take: to come back from the coordinator before we end a group ourselves,
/// and to end what is under way here.
inline constexpr Duration kAbortPatience = std::chrono::seconds(2);

/// Nobody to tell: in a worker's own coordinator the engines learn of groups from their clients.
class NoObserver final : public control::JobObserver {
  void job_started(const control::JobPlan&) override {}
  void group_opened(const control::GroupPlan&) override {}
  void group_closed(Incarnation, GroupId) override {}
  void job_ended(Incarnation) override {}
};

struct Context::Impl final : public control::ClientObserver {
  Options options;
  std::optional<auth::Key> key;
  std::string address;  // Of this rank, with port 0.
  NoObserver no_observer;
  std::unique_ptr<control::CoordinatorServer> server;  // Rank 0 without a daemon.
  std::unique_ptr<collective::Engine> engine;
  std::unique_ptr<mesh::Mesh> mesh;
  std::unique_ptr<mesh::Messenger> messenger;  // After the mesh, whose streams it uses.
  std::unique_ptr<control::ControlClient> client;
  std::atomic<control::ControlClient*> client_ready{nullptr};  // For calls from other threads.
  api::CostModel costs;

  Impl() = default;
  ~Impl() override;

  Result<void> join();
  Result<void> start_engine(const net::Endpoint& coordinator, Instant deadline);
  void leave();
  /// @param beside  of the same ranks as this group, whose fate it shares; in it each rank is a
  /// host for itself.
  Result<Group> open_group(const std::string& key, const std::vector<uint32_t>& ranks,
                           const std::shared_ptr<Impl>& self,
                           std::optional<GroupId> beside = std::nullopt);
  bool left = false;
  /// A group is about to close here: what it did last is still to be told (activity()).
  void note_closing(GroupId group);
  std::mutex closed_mutex;
  std::vector<control::GroupActivity> closed;  // Since the last heartbeat.

  // Ranks of one host (context_teams.cc).
  std::string alone;  // Why this rank shares memory with nobody; empty: it can.
  std::mutex teams_mutex;
  std::vector<std::weak_ptr<api::TeamRunner>> teams;  // Of the groups that are open.
  std::string user_tag;                               // As the engine has it.
  std::atomic<uint32_t> failovers{0}, returns{0};     // As the user said.
  /// Groups whose ranks share hosts, each with the group of the same ranks that sums their rows.
  std::vector<std::pair<GroupId, GroupId>> row_groups;
  /// What the coordinator is told about the host: equal on ranks that may share memory.
  std::string host_name() const;
  void probe_host(Instant deadline);
  /// Opens the group's team if any of its hosts has several ranks, else its part of the engine.
  Result<std::shared_ptr<api::TeamRunner>> open_paths(const control::GroupPlan& plan,
                                                      const control::OpenGroup& request);
  std::vector<std::shared_ptr<api::TeamRunner>> open_teams();
  void abort_teams(std::optional<GroupId> group, const Error& error);
  /// With its group for rows, or the one that it is that of.
  void end_group(GroupId group, const Error& error);
  void end_one(GroupId group, const Error& error);
  void close_team(const std::shared_ptr<api::TeamRunner>& team);
  void set_tag(const std::string& text);
  /// Of all groups, through the engine and through shared memory.
  std::vector<control::GroupActivity> current_activity();
  std::optional<wire::OperationDescriptor> find_operation(const control::Describe& question);

  void on_abort(std::optional<GroupId> group, const Error& error,
                const std::vector<Rank>& ranks) override;
  std::vector<control::GroupActivity> activity() override;
  control::Description describe(const control::Describe& question) override;
  control::Moves moves() override { return {failovers.load(), returns.load()}; }
  void on_left(const control::Left&) override {}
};

struct Work::State {
  std::shared_ptr<Group::State> group;
  collective::OperationPtr operation;        // Through the engine ...
  std::shared_ptr<api::TeamWork> host;       // ... or through shared memory ...
  std::shared_ptr<mesh::Exchange> exchange;  // ... or as messages ...
  Instant deadline{};

  std::mutex mutex;  // ... or the mesh:
  std::condition_variable changed;
  std::optional<Result<void>> outcome;
};

/// A baseline operation that waits for its turn.
struct MeshJob {
  std::shared_ptr<Work::State> work;
  Algorithm algorithm;
  wire::OperationDescriptor what;
  const void* in;
  void* out;
  uint32_t sequence;
  Instant posted_at, deadline;
};

/// Baselines over TCP run in call order, by the caller that waits for them or else on a thread.
/// Shared by the group and its thread: the last reference to a group may go on that very thread.
struct MeshRunner {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<MeshJob> queue;
  bool busy = false, stopping = false;
  std::thread thread;

  /// Runs the queue's front; the lock is released meanwhile.
  void run_front(std::unique_lock<std::mutex>& lock);
  /// What nobody waits for runs here, behind what a waiting caller runs itself.
  void run();
  /// Behind an abort of the group's streams: nothing that was queued begins any more, and what runs
  /// has ended if this returns true. Waits at most `patience`.
  bool drain(const Error& reason, Duration patience);
};

/// A group, alive as long as a handle refers to it (std::shared_ptr: handles are values).
struct Group::State {
  std::shared_ptr<Context::Impl> context;
  control::GroupPlan plan;
  uint32_t rank = 0;

  std::shared_ptr<api::TeamRunner> team;  // Where hosts have several ranks; else null.
  std::shared_ptr<MeshRunner> runner = std::make_shared<MeshRunner>();
  uint32_t mesh_sequence = 0;
  std::mutex apart_mutex;
  std::shared_ptr<State>
      apart;  // With a team, from the first sum of rows on: the same ranks apart.

  ~State();
  WireFormat default_format(const wire::OperationDescriptor& what) const;
  Result<Work> submit(const std::shared_ptr<State>& self, wire::OperationDescriptor what,
                      const void* in, void* out, const Call& call, bool waits = false,
                      const collective::RowLists& rows = {});
  Result<Work> submit_rows(const std::shared_ptr<State>& self, const RowSum& table,
                           const Call& call, bool waits);
  Result<std::shared_ptr<State>> open_apart();
  /// Submits and waits.
  Result<void> perform(const std::shared_ptr<State>& self, const wire::OperationDescriptor& what,
                       const void* in, void* out, const Call& call);
  Result<Work> submit_mesh(const std::shared_ptr<State>& self, Algorithm algorithm,
                           const wire::OperationDescriptor& what, const void* in, void* out,
                           Instant deadline, bool waits);
  Result<void> run_mesh(const MeshJob& job);
  Result<void> wait_mesh(Work::State& work, Instant deadline);
  Result<void> wait_exchange(Work::State& work, Instant deadline);
  /// Of a message that came in an exchange.
  uint32_t place_of(Rank rank) const;
};

}  // namespace sumcast
