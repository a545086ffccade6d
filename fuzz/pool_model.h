// The slot pool again, as plainly as it can be written: maps and sets, nothing clever. It predicts
// the verdict of every call.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "core/slot_pool.h"

namespace sumcast::fuzz {

class PoolModel {
 public:
  explicit PoolModel(const core::SlotPoolConfig& config) : config_(config), slots_(config.slots) {}

  core::Verdict on_contribution(const core::Contribution& in);
  core::ProbeVerdict on_probe(uint16_t member, uint16_t slot, uint32_t phase) const;
  /// Stops the process if `pool` says anything else about this slot.
  void compare(const core::SlotPool& pool, uint16_t slot) const;

 private:
  struct Slot {
    uint32_t phase = 0;
    std::map<uint16_t, uint64_t> counted;  // Member to payload.
    core::Contribution first;
    core::StoredResult stored;
    std::vector<uint64_t> payloads;  // Of the stored result.
  };
  struct Operation {
    uint32_t total = 0, next = 0, completed = 0;
  };
  bool admit(uint32_t digest, uint32_t total);

  core::SlotPoolConfig config_;
  std::vector<Slot> slots_;
  std::map<uint32_t, Operation> operations_;
};

}  // namespace sumcast::fuzz
