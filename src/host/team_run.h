// One operation under way. Private to team*.cc.
#pragma once

#include "host/team.h"

namespace sumcast::host {

struct Team::Run {
  Run(Team& owner, const TeamCall& what);

  // team_run.cc: when things happen.
  Result<void> all();
  Result<void> begin(uint64_t piece);
  Result<void> add(uint64_t piece);
  Result<void> post(uint64_t piece);
  Result<void> collect(uint64_t piece);
  Result<void> finish(uint64_t piece);
  Result<void> wait(Stage stage, uint64_t piece);
  Result<void> wait_until(Turn& turn, uint32_t target);
  /// The deadline has passed: says so, then gives the coordinator time to end it for all.
  Result<void> overdue();
  Result<void> check_agreement();
  Error why() const;

  // team_lanes.cc: what is moved.
  void copy_in(uint64_t piece);
  void fold(uint64_t piece);
  void fold_lanes(uint32_t buffer, uint64_t tensor_first, Lanes flat, std::byte* to);
  void copy_out(uint64_t piece);
  void copy_result(const std::byte* from, std::byte* to, uint64_t lanes);

  uint32_t buffer(uint64_t piece) const { return team.buffer_of(first_piece + piece); }
  /// Of one part's lanes in the sum, in bytes.
  uint64_t carried_bytes(uint64_t lanes) const { return lanes * element_bytes(course.carried); }
  uint64_t tensor_bytes(uint64_t lanes) const { return lanes * element_bytes(course.type); }

  Team& team;
  const TeamCall& call;
  const wire::OperationDescriptor& what;
  const Course course;
  const uint32_t me;     // Seat.
  const uint32_t seats;  // Local ranks.
  const uint64_t first_piece;
  uint64_t net_lag;  // Pieces that may be between hosts at once.
  Instant limit;     // Of waits: the deadline, then the patience after it.
  bool reported = false;
  bool streams;    // Too large for the cache: results are stored past it.
  bool skips_own;  // This rank's own slice need not be copied in.
};

}  // namespace sumcast::host
