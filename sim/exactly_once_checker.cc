#include "sim/exactly_once_checker.h"

#include <algorithm>
#include <utility>

#include "sim/tokens.h"

namespace sumcast::sim {

using core::Verdict;

ExactlyOnceChecker::ExactlyOnceChecker(uint16_t members, uint16_t shards, uint16_t slots,
                                       std::span<const OperationPlan> plan)
    : members_(members), slot_count_(slots), plan_(plan), slots_(size_t{shards} * slots) {
  for (Slot& s : slots_) {
    s.counted.assign(members, 0);
    s.next_phase.assign(members, 0);
  }
  for (uint32_t i = 0; i < plan.size(); ++i) {
    operation_by_digest_[plan[i].digest] = i;
    auto& of_operation = delivered_.emplace_back();
    for (const uint32_t total : plan[i].totals) {
      of_operation.emplace_back(size_t{total} * members, uint8_t{0});
    }
  }
}

void ExactlyOnceChecker::fail(std::string sentence) {
  if (violation_.empty()) violation_ = std::move(sentence);
}

std::string ExactlyOnceChecker::place(uint16_t shard, uint16_t slot, uint32_t phase) const {
  return " (shard " + std::to_string(shard) + ", slot " + std::to_string(slot) + ", phase " +
         std::to_string(phase) + ")";
}

void ExactlyOnceChecker::on_judged(uint16_t shard, const core::Contribution& in, Verdict verdict,
                                   bool incarnation_matches) {
  if (verdict == Verdict::kMismatch || verdict == Verdict::kForeign) {
    return fail("an honest contribution was refused" + place(shard, in.slot, in.phase));
  }
  if (verdict != Verdict::kAccepted && verdict != Verdict::kCompleted) return;
  Slot& s = slot(shard, in.slot);
  const auto where = [&] {
    return " of member " + std::to_string(in.member) + place(shard, in.slot, in.phase);
  };
  if (!incarnation_matches) return fail("I5: counted a datagram of another life" + where());
  if (in.phase != s.phase) return fail("I1: counted a contribution to another phase" + where());
  if (s.counted[in.member]++ != 0) return fail("I1: counted twice, a contribution" + where());
  const auto known = operation_by_digest_.find(in.digest);
  if (known == operation_by_digest_.end() ||
      in.payload != token(known->second, shard, in.chunk, in.member)) {
    fail("I2: counted what is not the contribution" + where());
  }
}

void ExactlyOnceChecker::on_result_written(uint16_t shard, uint16_t index,
                                           const core::StoredResult& result, uint64_t sum) {
  Slot& s = slot(shard, index);
  const auto where = [&] { return place(shard, index, result.phase); };
  if (result.phase != s.phase) return fail("a phase completed out of turn" + where());
  if (!std::ranges::all_of(s.counted, [](uint8_t times) { return times == 1; })) {
    return fail("I2: completed before every member was counted" + where());
  }
  const auto known = operation_by_digest_.find(result.digest);
  if (known == operation_by_digest_.end() ||
      sum != expected_sum(known->second, shard, result.chunk, members_)) {
    return fail("I2: a sum is wrong" + where());
  }
  // Writing version phase & 1 loses the result of phase - 2; that of phase - 1 is no longer
  // answered either.
  if (!std::ranges::all_of(s.next_phase, [&](uint32_t next) { return next == result.phase; })) {
    return fail("I3: a result was given up before every member held it" + where());
  }
  s.result = result;
  s.sum = sum;
  s.has_result = true;
  ++s.phase;
  std::ranges::fill(s.counted, uint8_t{0});
}

void ExactlyOnceChecker::on_result_sent(uint16_t shard, uint16_t index,
                                        const core::StoredResult& result, uint64_t sum) {
  const Slot& s = slot(shard, index);
  if (!s.has_result || result.phase != s.result.phase) {
    return fail("I2: a result left that was never completed" + place(shard, index, result.phase));
  }
  if (sum != s.sum || result.digest != s.result.digest || result.chunk != s.result.chunk ||
      result.number != s.result.number) {
    fail("I4: a result sent again differs" + place(shard, index, result.phase));
  }
}

void ExactlyOnceChecker::on_delivered(uint16_t member, uint16_t shard, uint16_t index,
                                      uint32_t phase, uint32_t operation, uint32_t chunk,
                                      uint64_t sum) {
  Slot& s = slot(shard, index);
  const auto where = [&] {
    return " to member " + std::to_string(member) + ", operation " + std::to_string(operation) +
           ", chunk " + std::to_string(chunk) + place(shard, index, phase);
  };
  if (s.next_phase[member] != phase) return fail("a result was accepted out of turn" + where());
  s.next_phase[member] = phase + 1;
  if (operation >= plan_.size() || chunk >= plan_[operation].totals[shard]) {
    return fail("delivered a chunk that does not exist" + where());
  }
  if (sum != expected_sum(operation, shard, chunk, members_)) {
    return fail("a wrong sum was delivered" + where());
  }
  if (delivered_[operation][shard][size_t{chunk} * members_ + member]++ != 0) {
    fail("delivered twice" + where());
  }
}

void ExactlyOnceChecker::on_slot_seen(uint16_t shard, uint16_t index, uint32_t phase,
                                      uint16_t counted, uint16_t members_marked) {
  const Slot& s = slot(shard, index);
  if (phase != s.phase) fail("the pool collects another phase" + place(shard, index, phase));
  if (counted != members_marked) {
    fail("the pool's count and its bitmap differ" + place(shard, index, phase));
  }
}

void ExactlyOnceChecker::on_end() {
  for (uint32_t operation = 0; operation < delivered_.size(); ++operation) {
    for (uint32_t shard = 0; shard < delivered_[operation].size(); ++shard) {
      const auto& times = delivered_[operation][shard];
      for (size_t i = 0; i < times.size(); ++i) {
        if (times[i] == 1) continue;
        return fail("I6: operation " + std::to_string(operation) + ", shard " +
                    std::to_string(shard) + ", chunk " + std::to_string(i / members_) +
                    " was never delivered to member " + std::to_string(i % members_));
      }
    }
  }
}

}  // namespace sumcast::sim
