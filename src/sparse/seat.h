// A member's seat in a job that outlives its aggregator: the context that carries the job now, and
// those that take its place when the aggregator goes away.
//
//   contexts    [ the first daemon | the other daemons ... | direct ]
//                 job and job's       each joined at the      rank 0 is
//                 coordinator         start, idle until then  coordinator
//
// Standbys are joined when the job begins and wait. So addresses are proved, keys derived and
// members known before anything fails, and the change needs no meeting: every member that loses its
// aggregator takes the next context, and none can take another one than the rest. A standby that
// not all members could join is dropped at the start, on all of them alike, with a warning.
//
// It does not know what is done in a context: who uses one fences it (Group::abort) before moving
// on, and brings what was under way to one point afterwards (worker.h, server.h).
//
// Single-threaded.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "sumcast/sumcast.hpp"

namespace sumcast::sparse {

class Seat {
 public:
  /// Joins the job and, if `standby`, all its standbys, within the options' join_timeout for the
  /// first and a few seconds for each of the others. A job without a daemon has no standbys: its
  /// coordinator is a rank.
  static Result<std::unique_ptr<Seat>> join(const sumcast::Options& options, bool standby);

  Context& context() const { return *contexts_[at_]; }
  size_t at() const { return at_; }
  size_t contexts() const { return contexts_.size(); }
  Context& context(size_t i) const { return *contexts_[i]; }
  bool has_standby() const { return at_ + 1 < contexts_.size(); }

  /// Did the error come because the aggregator went away? Waits a moment for that to show: a peer
  /// that knows already may be noticed first.
  bool is_lost(const Error& error) const;
  /// Takes the next context. The error if there is none, or if the aggregator is not what failed.
  /// `where` says what was under way, for the log.
  Result<void> move_on(const Error& error, const std::string& where);

  /// This member is done for: ends the job in this context and in those that others may be in, or
  /// come to, already. A fence, as Group::abort.
  void end(const std::string& reason) const;

  /// Why each context that was given up was.
  const std::vector<std::string>& reasons() const { return reasons_; }
  /// How sums are made now: "sumcastd at 10.0.0.1:4700", or "the ranks themselves".
  const std::string& place() const { return places_[at_]; }

 private:
  Seat() = default;
  Result<void> add_daemon(sumcast::Options options, const std::string& address);
  Result<void> add_direct(sumcast::Options options);
  Result<void> keep_if_all_have(Result<std::unique_ptr<Context>> joined, const std::string& place);

  std::vector<std::unique_ptr<Context>> contexts_;
  std::vector<std::string> places_;
  size_t at_ = 0;
  std::vector<std::string> reasons_;
};

}  // namespace sumcast::sparse
