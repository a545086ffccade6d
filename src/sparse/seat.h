// A member's seat in a job that outlives its aggregator: the context that carries the job now, and
// those that take its place when the aggregator goes away.
//
//   places    [ the first daemon | the other daemons ... | direct ]
//               job and job's       each joined at the      rank 0 is
//               coordinator         start, idle until then  coordinator
//
// Standbys are joined when the job begins and wait. So addresses are proved, keys derived and
// members known before anything fails, and the change needs no meeting: every member that loses its
// aggregator takes the next place, and none can take another one than the rest. A standby that
// not all members could join is dropped at the start, on all of them alike, with a warning.
//
// Away from the first place, a scout (scout.h) joins it anew beside the training once it is back.
// From when all members have voted for that context until they use it, it is the *next* one for
// whoever loses the present one: a member can only have gone over if all have voted, so those who
// go over and those who fail over meet there (P23). Until a round has ended in it nothing but the
// vote speaks for it, and any failure there counts as its loss.
//
// It does not know what is done in a context: who uses one fences it (Group::abort) before moving
// on, and brings what was under way to one point afterwards (worker.h, server.h).
//
// For the thread that trains or serves; end(), confirm(), is_return_ready() and the questions about
// the past may come from any.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sparse/scout.h"
#include "sumcast/sumcast.hpp"

namespace sumcast::sparse {

class Seat {
 public:
  /// Joins the job and, if `standby`, all its standbys, within the options' join_timeout for the
  /// first and a few seconds for each of the others. A job without a daemon has no standbys: its
  /// coordinator is a rank.
  static Result<std::unique_ptr<Seat>> join(const sumcast::Options& options, bool standby);
  ~Seat();
  Seat(const Seat&) = delete;
  Seat& operator=(const Seat&) = delete;

  Context& context() const { return *places_[at_].context; }
  bool has_standby() const { return at_ + 1 < places_.size(); }
  /// Is there another place than this one?
  bool has_places() const { return places_.size() > 1; }

  /// Opens a group of these ranks at every place, for those that are in it; and at each that is
  /// returned to. Called by all members; once.
  Result<void> open_team(std::span<const uint32_t> ranks, const std::string& key);
  /// The group of open_team() at this place.
  Group team() const { return *places_[at_].team; }

  /// Did the error come because the aggregator went away? Waits a moment for that to show: a peer
  /// that knows already may be noticed first.
  bool is_lost(const Error& error) const;
  /// Takes the next place. The error if there is none, or if the aggregator is not what failed.
  /// `where` says what was under way, for the log.
  Result<void> move_on(const Error& error, const std::string& where);

  /// Worker 0: all members have joined a better place again. False on all others.
  bool is_return_ready() const;
  /// Takes that place; the present one stays as a standby, with nothing under way in it. Only where
  /// is_return_ready() was true on worker 0. False: this member has gone there already, or lost it.
  bool go_back(const std::string& where);
  /// A round has ended here: a loss shows as one from now on.
  void confirm() { is_confirmed_.store(true, std::memory_order_relaxed); }

  /// This member is done for: ends the job in all contexts that others may be in, or come to. A
  /// fence, as Group::abort.
  void end(const std::string& reason) const;

  uint32_t failovers() const { return failovers_.load(std::memory_order_relaxed); }
  uint32_t returns() const { return returns_.load(std::memory_order_relaxed); }
  /// Why each context that was given up was. Of the thread that moves on.
  const std::vector<std::string>& reasons() const { return reasons_; }
  /// How sums are made now: "sumcastd at 10.0.0.1:4700", or "the ranks themselves".
  const std::string& place() const { return places_[at_].name; }

 private:
  struct Place {
    std::string name;
    std::string address;  ///< Of the daemon; empty: there is none.
    uint32_t serial = 0;  ///< Of the context; never used twice.
    std::shared_ptr<Context> context{};
    std::optional<Group> team{};
  };

  explicit Seat(const sumcast::Options& options);
  Result<void> add_daemon(const std::string& address);
  Result<void> add_direct();
  Result<void> keep_if_all_have(Result<std::unique_ptr<Context>> joined, const Place& place);
  Result<Group> open_team_in(Context& context) const;
  Result<Found> join_again(size_t place, uint32_t attempt) const;
  void adopt(Found found);
  void settle(const std::string& what, bool is_return);

  sumcast::Options options_;
  std::vector<uint32_t> team_ranks_;
  std::string team_key_;
  std::unique_ptr<Scout> scout_;  // Before the contexts, whose messages it hears.
  mutable std::mutex mutex_;      // Of places_ where others than the member's thread look at them.
  std::vector<Place> places_;
  size_t at_ = 0;
  uint32_t serials_ = 0;
  std::atomic<bool> is_confirmed_{true};
  std::atomic<uint32_t> failovers_{0}, returns_{0};
  std::vector<std::string> reasons_;
};

}  // namespace sumcast::sparse
