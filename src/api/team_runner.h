// A group whose hosts have several ranks: operations in call order, through the host's shared
// memory, and (on the leading rank of each host) through the engine to the other hosts.
//
// One operation runs at a time, in the thread of the caller that waits for it, or in a thread of
// the team if nobody does. That thread leaves a caller a moment to come: a hand-over between
// threads costs as much as a small operation.
//
// It does not know how ranks share memory (host/), nor who decides on groups and aborts (control/).
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "collective/engine.h"
#include "control/messages.h"
#include "control/plan.h"
#include "host/team.h"

namespace sumcast::api {

/// The leaders' own group, and the engine that carries its operations.
class EngineUplink final : public host::Uplink {
 public:
  EngineUplink(collective::Engine& engine, GroupId leaders) : engine_(engine), leaders_(leaders) {}

  /// For the operations that follow.
  void set_route(collective::Route route) { route_ = route; }

  Result<void> post(const wire::OperationDescriptor& what, const std::byte* in,
                    std::byte* out) override;
  Result<bool> collect(Instant deadline) override;

 private:
  collective::Engine& engine_;
  GroupId leaders_;
  collective::Route route_ = collective::Route::kDirect;
  std::deque<collective::OperationPtr> under_way_;
};

/// One operation of a team.
struct TeamWork {
  wire::OperationDescriptor what;
  const void* in = nullptr;
  void* out = nullptr;
  collective::Route route = collective::Route::kDirect;
  Instant posted_at, deadline;
  Result<void> outcome;           ///< Set before `done`.
  std::atomic<bool> done{false};  ///< The tensors are not touched any more.
};

/// What a team tells the coordinator; from any thread, must not block.
struct TeamReports {
  std::function<void(const control::Overdue&)> overdue;
  std::function<void(const control::Mismatch&)> mismatch;
  std::function<void(const Error&)> give_up;  ///< This rank ends the group for all.
};

class TeamRunner final : public host::TeamObserver {
 public:
  /// @param leaders  the group of the hosts' leaders; only on those, and with several hosts.
  /// @param look  SUMCAST_SPIN.
  TeamRunner(const control::GroupPlan& plan, host::Segment segment, host::Layout layout,
             std::optional<GroupId> leaders, collective::Engine& engine, Duration look,
             TeamReports reports);
  ~TeamRunner() override;

  GroupId group() const { return plan_.group; }
  std::optional<GroupId> leaders() const { return leaders_; }
  /// Does anything leave this host?
  bool has_net() const { return team_.layout().hosts() > 1; }

  /// Queues an operation; its group and sequence number are filled in.
  /// @param waits  the caller calls wait() next: no thread needs to be woken for it.
  Result<std::shared_ptr<TeamWork>> submit(wire::OperationDescriptor what, collective::Route route,
                                           const void* in, void* out, Instant deadline, bool waits);
  /// Runs it or waits until it was run. At `deadline` (or its own, if sooner) the coordinator is
  /// told, who ends the group on all ranks.
  Result<void> wait(const std::shared_ptr<TeamWork>& work, Instant deadline);

  /// Ends everything on all ranks of this host, for good. The first reason stays.
  void abort(const Error& error) { team_.abort(error); }
  /// Behind abort(): waits until nothing of this rank is under way, two seconds at most.
  void drain();
  /// Ends what is under way here and takes nothing more.
  void stop();

  /// What this rank does in the group, for heartbeats; without the user's tag.
  control::GroupActivity activity();
  /// By number, by digest, or (`fingerprint` not 0) by what its pieces between hosts carry.
  std::optional<wire::OperationDescriptor> find(uint64_t sequence, uint32_t digest,
                                                uint64_t fingerprint);

 private:
  using Lock = std::unique_lock<std::mutex>;
  static constexpr size_t kHistory = 64;

  void on_overdue(const wire::OperationDescriptor& what) override;
  void on_mismatch(uint32_t seat_a, uint32_t digest_a, uint32_t seat_b, uint32_t digest_b) override;
  void run_front(Lock& lock, Instant deadline);
  void run();

  const control::GroupPlan plan_;
  const std::optional<GroupId> leaders_;
  const TeamReports reports_;
  EngineUplink* uplink_ = nullptr;  // The team's.
  host::Team team_;

  std::mutex mutex_;  // Guards what follows.
  std::condition_variable changed_;
  std::deque<std::shared_ptr<TeamWork>> queue_;
  std::shared_ptr<TeamWork> running_;
  bool stopping_ = false;
  bool thread_idle_ = false;  // Asleep until told of work that nobody waits for.
  uint32_t posted_ = 0, completed_ = 0;
  std::array<wire::OperationDescriptor, kHistory> history_;  // By sequence.
  Instant last_change_;
  std::thread thread_;
};

}  // namespace sumcast::api
