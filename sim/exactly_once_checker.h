// Watches a simulated group and knows what must never happen (dense-aggregation.md 2.6):
//
//   I1  a member is counted at most once in each (slot, phase)
//   I2  a result leaves only when every member was counted, each with its own contribution of that
//       operation and chunk
//   I3  a result buffer is overwritten only after every member holds the result that it kept
//   I4  a result sent again is the same result
//   I5  a datagram of another incarnation changes nothing
//   I6  under fair loss every operation completes, and delivers each chunk to each member once
//
// It sees what shells did through its on_* calls and keeps books of its own; it does not ask the
// pool or the windows what they believe. The first violation is kept as a sentence.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "core/slot_pool.h"
#include "sim/operation_plan.h"

namespace sumcast::sim {

class ExactlyOnceChecker {
 public:
  /// `plan` must outlive the checker.
  ExactlyOnceChecker(uint16_t members, uint16_t shards, uint16_t slots,
                     std::span<const OperationPlan> plan);

  /// A shard judged a contribution. @param incarnation_matches it is of this job's life.
  void on_judged(uint16_t shard, const core::Contribution& in, core::Verdict verdict,
                 bool incarnation_matches);
  /// A shard completed a slot and writes `sum` into the buffer of that version.
  void on_result_written(uint16_t shard, uint16_t slot, const core::StoredResult& result,
                         uint64_t sum);
  /// A shard sends a result, for the first time or again.
  void on_result_sent(uint16_t shard, uint16_t slot, const core::StoredResult& result,
                      uint64_t sum);
  /// A worker accepted a result.
  void on_delivered(uint16_t member, uint16_t shard, uint16_t slot, uint32_t phase,
                    uint32_t operation, uint32_t chunk, uint64_t sum);
  /// The pool's own books for one slot: counted() and the phase.
  void on_slot_seen(uint16_t shard, uint16_t slot, uint32_t phase, uint16_t counted,
                    uint16_t members_marked);
  /// The run is over: nothing may be missing.
  void on_end();

  bool failed() const { return !violation_.empty(); }
  /// Empty, or the first violation in words.
  const std::string& violation() const { return violation_; }

 private:
  struct Slot {
    uint32_t phase = 0;            // That is being collected.
    std::vector<uint8_t> counted;  // Per member, in that phase.
    bool has_result = false;
    core::StoredResult result;  // Of the phase before.
    uint64_t sum = 0;
    std::vector<uint32_t> next_phase;  // Per member: results held, as the phase that follows.
  };
  Slot& slot(uint16_t shard, uint16_t index) { return slots_[size_t{shard} * slot_count_ + index]; }
  void fail(std::string sentence);
  std::string place(uint16_t shard, uint16_t slot, uint32_t phase) const;

  uint16_t members_, slot_count_;
  std::span<const OperationPlan> plan_;
  std::map<uint32_t, uint32_t> operation_by_digest_;
  std::vector<Slot> slots_;
  /// [operation][shard][chunk * members + member]: times delivered.
  std::vector<std::vector<std::vector<uint8_t>>> delivered_;
  std::string violation_;
};

}  // namespace sumcast::sim
