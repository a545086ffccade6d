// The ranks of one host in one group, and one operation after the other through their segment.
//
// Every local rank runs the same operations in the same order; each moves its own data and adds its
// share, so a tensor is touched by nobody but the thread that runs its operation. That is why an
// abort is a fence: when run() has returned, nothing of that call is used any more.
//
// Pieces are pipelined: a rank copies one piece in, adds an earlier one, and copies out what came
// before that, so it can go on for a while when a neighbour has the core.
//
// What happens between hosts is an Uplink, of which only leaders have one. This room does not know
// how it works, nor who decides on aborts: a TeamObserver hears what went wrong here.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "host/course.h"
#include "host/layout.h"
#include "host/segment.h"
#include "wire/descriptor.h"

namespace sumcast::host {

/// The way to the other hosts' leaders. Operations complete in the order in which they are posted.
/// Used by one thread at a time.
class Uplink {
 public:
  virtual ~Uplink() = default;
  /// Starts an operation among the leaders. `what`: kind, type, reduction, format, count, `root`
  /// (a host's index) and part_of. `in` and `out` lie in the segment and stay until it is done.
  virtual Result<void> post(const wire::OperationDescriptor& what, const std::byte* in,
                            std::byte* out) = 0;
  /// Waits for the oldest one. @return false if it is not done at `deadline`.
  virtual Result<bool> collect(Instant deadline) = 0;
};

/// Hears from the thread that runs an operation. What is reported must end in an abort.
class TeamObserver {
 public:
  virtual ~TeamObserver() = default;
  /// The operation's deadline has passed.
  virtual void on_overdue(const wire::OperationDescriptor& what) = 0;
  /// Two ranks of the host (by seat) run different operations.
  virtual void on_mismatch(uint32_t seat_a, uint32_t digest_a, uint32_t seat_b,
                           uint32_t digest_b) = 0;
};

struct TeamCall {
  wire::OperationDescriptor what;  ///< With group and sequence number.
  const void* in = nullptr;        ///< Shapes as in sumcast.hpp.
  void* out = nullptr;
  Instant deadline = Instant::never();
};

class Team {
 public:
  /// Segments as teams use them. `hosts`: of the group.
  static Shape shape_for(uint32_t local_ranks, uint32_t hosts);

  /// @param uplink  on leaders of groups with several hosts; else null.
  /// @param observer  outlives the team.
  /// @param look  how long a rank may look for its neighbours before it sleeps.
  Team(Segment segment, Layout layout, std::unique_ptr<Uplink> uplink, TeamObserver& observer,
       Duration look);

  /// Runs one operation to its end. One call at a time, in the order of all ranks.
  /// Errors: whatever the team was aborted with. Output tensors then hold an unknown part of the
  /// result, except after a mismatch, when they are untouched.
  Result<void> run(const TeamCall& call);

  /// Ends the operations of all local ranks, from any thread, for good. The first reason stays.
  void abort(const Error& error) { segment_.abort(error); }
  std::optional<Error> aborted() const { return segment_.aborted(); }
  const Layout& layout() const { return layout_; }

 private:
  struct Run;  // One operation under way: team_run.cc, team_lanes.cc.

  uint32_t buffer_of(uint64_t piece) const {
    return static_cast<uint32_t>(piece % segment_.shape().buffers);
  }

  Segment segment_;
  Layout layout_;
  std::unique_ptr<Uplink> uplink_;
  TeamObserver& observer_;
  Looking looking_;
  uint64_t next_piece_ = 0;  // Counts pieces over all operations.
  /// Arrivals that each counter will have when the piece that uses it now is done.
  std::array<std::vector<uint32_t>, kStages> expected_;
  std::vector<const std::byte*> sources_, wide_sources_;
  std::vector<std::byte> scratch_;  // f32 lanes of all sources, where f16 and bf16 are added.
};

}  // namespace sumcast::host
