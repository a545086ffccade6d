#include "fuzz/pool_model.h"

#include <algorithm>

#include "base/assert.h"

namespace sumcast::fuzz {

using core::ProbeVerdict;
using core::Verdict;

/// An operation that is known, with that total, or that there is still room for.
bool PoolModel::admit(uint32_t digest, uint32_t total) {
  const auto known = operations_.find(digest);
  if (known != operations_.end()) return known->second.total == total;
  if (operations_.size() == config_.operations) return false;
  operations_[digest] = Operation{total, std::min<uint32_t>(total, config_.slots), 0};
  return true;
}

Verdict PoolModel::on_contribution(const core::Contribution& in) {
  if (in.slot >= config_.slots || in.member >= config_.members || in.digest == 0 ||
      in.chunk >= in.total) {
    return Verdict::kForeign;
  }
  Slot& slot = slots_[in.slot];
  if (slot.stored.valid && in.phase == slot.stored.phase) return Verdict::kAnswer;
  if (in.phase != slot.phase) return Verdict::kStale;
  if (slot.counted.empty()) {
    if (!admit(in.digest, in.total)) return Verdict::kForeign;
    slot.first = in;
  }
  if (in.digest != slot.first.digest || in.chunk != slot.first.chunk ||
      in.total != slot.first.total) {
    return Verdict::kMismatch;
  }
  if (!slot.counted.emplace(in.member, in.payload).second) return Verdict::kDuplicate;
  if (slot.counted.size() < config_.members) return Verdict::kAccepted;

  const auto known = operations_.find(in.digest);
  uint32_t next = in.total;  // Of an operation with more chunks than it said: none is left.
  if (known != operations_.end()) {
    next = known->second.next++;
    if (++known->second.completed == known->second.total) operations_.erase(known);
  }
  slot.stored = core::StoredResult{true, slot.phase, in.digest, in.chunk, next};
  slot.payloads.clear();
  for (const auto& [member, payload] : slot.counted) slot.payloads.push_back(payload);
  slot.counted.clear();
  ++slot.phase;
  return Verdict::kCompleted;
}

ProbeVerdict PoolModel::on_probe(uint16_t member, uint16_t index, uint32_t phase) const {
  if (index >= config_.slots || member >= config_.members) return ProbeVerdict::kForeign;
  const Slot& slot = slots_[index];
  if (slot.stored.valid && phase == slot.stored.phase) return ProbeVerdict::kAnswer;
  if (phase != slot.phase) return ProbeVerdict::kStale;
  return slot.counted.contains(member) ? ProbeVerdict::kWaiting : ProbeVerdict::kAskProber;
}

void PoolModel::compare(const core::SlotPool& pool, uint16_t index) const {
  const Slot& slot = slots_[index];
  SUMCAST_ASSERT(pool.phase(index) == slot.phase);
  SUMCAST_ASSERT(pool.counted(index) == slot.counted.size());
  SUMCAST_ASSERT(pool.is_open(index) == !slot.counted.empty());
  for (uint16_t m = 0; m < config_.members; ++m) {
    SUMCAST_ASSERT(pool.has_counted(index, m) == slot.counted.contains(m));
  }
  const core::StoredResult& stored = pool.stored(index);
  SUMCAST_ASSERT(stored.valid == slot.stored.valid);
  if (!stored.valid) return;
  SUMCAST_ASSERT(stored.phase == slot.stored.phase);
  SUMCAST_ASSERT(stored.digest == slot.stored.digest);
  SUMCAST_ASSERT(stored.chunk == slot.stored.chunk);
  SUMCAST_ASSERT(stored.number == slot.stored.number);
  // The payloads of the last result are there until the next phase opens.
  if (!slot.counted.empty()) return;
  SUMCAST_ASSERT(std::ranges::equal(pool.payloads(index), slot.payloads));
}

}  // namespace sumcast::fuzz
