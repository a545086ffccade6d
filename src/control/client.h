// A worker's end of the control connection.
//
// It joins (and waits for the others), sends a heartbeat with what the rank is doing, opens groups,
// reports what went wrong, and hears of aborts. One thread of its own keeps the heart beating while
// the program computes; threads of the program only put messages into its queue or wait for an
// answer. It does not know what operations are: an observer says what goes on and is told when a
// group has failed.
//
// No wait is without end: joining and opening have deadlines, leaving is bounded, and if a report
// of lateness is not answered (the coordinator itself may hang) the client ends the group itself.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "auth/secret.h"
#include "base/result.h"
#include "base/time.h"
#include "control/messages.h"
#include "control/plan.h"
#include "net/address.h"

namespace sumcast::control {

struct JoinOptions {
  net::Endpoint coordinator;
  std::optional<net::Endpoint> bind_local;  ///< The address to come from; none: by route.
  std::optional<auth::Key> key;             ///< None: insecure.
  std::string key_source;                   ///< Where the key is from, for error texts: a path.
  Join join;                                ///< `join.timeout` bounds the whole of joining.
  /// If nothing was heard for so long, a warning says so; again after twice as long.
  Duration notice = 5s;
};

/// What the client asks and tells its rank. All calls come from the client's thread, must return
/// soon, and may call the client's report_* and close_group but not what waits.
class ClientObserver {
 public:
  virtual ~ClientObserver() = default;
  /// A group (none: everything of the job) failed and will not recover. Once per group.
  virtual void on_abort(std::optional<GroupId> group, const Error& error,
                        const std::vector<Rank>& ranks) = 0;
  /// What the rank does in each of its groups, for the next heartbeat.
  virtual std::vector<GroupActivity> activity() = 0;
  /// How often the rank has changed aggregators, for the same.
  virtual Moves moves() { return {}; }
  /// The operation of that number, or (`sequence` 0) of that digest: `sequence` and `text` of the
  /// answer; `sequence` 0 there means that the rank has no such operation.
  virtual Description describe(const Describe& question) = 0;
  /// A rank left in good order.
  virtual void on_left(const Left& left) = 0;
};

class ClientLoop;

class ControlClient {
 public:
  /// Connects, and waits until all ranks have joined. A coordinator that does not listen yet is
  /// tried again until the deadline.
  ///
  /// @param observer  outlives the client.
  /// Errors: kUnavailable (nobody answers there), kDenied (wrong key, one side insecure, another
  /// protocol version), kTimeout (names the missing ranks), or the coordinator's refusal.
  static Result<std::unique_ptr<ControlClient>> join(const JoinOptions& options,
                                                     ClientObserver& observer);
  /// Closes the connection. Without leave() before, that is this rank's death to the others.
  ~ControlClient();
  ControlClient(const ControlClient&) = delete;
  ControlClient& operator=(const ControlClient&) = delete;

  // All of these may be called from any thread.

  /// Incarnation, members, and the daemon's shards. Constant.
  const Welcome& welcome() const;

  /// Opens a group together with its other members; waits for them until `request.timeout`. Calls
  /// with different keys may wait at the same time.
  /// Errors: kTimeout and kMismatch (naming the ranks), kNoSlots, kAborted (a member is gone, or
  /// the coordinator), kInvalidArgument; whatever ended the group that this one belongs to.
  /// @param beside  An open group with whose end the waiting ends; `leaders_of` is one, too.
  Result<GroupPlan> open_group(const OpenGroup& request,
                               std::optional<GroupId> beside = std::nullopt);
  /// This rank uses the group no more.
  void close_group(GroupId group);

  /// Why a group (or everything) was aborted, if it was. For the moment after open_group: an abort
  /// may have come before its caller could know the group.
  std::optional<Error> abort_of(GroupId group) const;

  /// The coordinator is gone or does not answer, and why that is thought. Everything is aborted
  /// then, or about to be.
  std::optional<Error> lost() const;

  /// The rank waited too long for an operation. An abort of the group follows within a second.
  void report_overdue(const Overdue& overdue);
  /// The rank ends the group; its other members are told why.
  void give_up(GroupId group, const Error& why);
  /// The rank's shard met two operations in one slot. The abort of the group follows.
  void report_mismatch(const Mismatch& mismatch);

  /// Says that this rank posts nothing more, and waits until all ranks have said so, for `patience`
  /// at most. True if all have. Call it once, last.
  bool leave(Duration patience);

 private:
  explicit ControlClient(std::unique_ptr<ClientLoop> loop);

  std::unique_ptr<ClientLoop> loop_;
};

}  // namespace sumcast::control
