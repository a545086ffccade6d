#include "core/slot_pool.h"

#include <algorithm>
#include <bit>

#include "base/assert.h"
#include "base/ids.h"

namespace sumcast::core {
namespace {

constexpr uint32_t words_for(uint16_t members) { return (members + 63u) / 64u; }
constexpr uint32_t table_size(uint16_t operations) {
  return std::bit_ceil(static_cast<uint32_t>(operations) * 2u);
}
bool test_bit(std::span<const uint64_t> words, uint16_t bit) {
  return (words[bit / 64] >> (bit % 64)) & 1u;
}
void set_bit(std::span<uint64_t> words, uint16_t bit) {
  words[bit / 64] |= uint64_t{1} << (bit % 64);
}

}  // namespace

size_t SlotPool::bytes_needed(const SlotPoolConfig& config) {
  const size_t slots = config.slots, words = words_for(config.members);
  return Arena::bytes_for<Slot>(slots) + 3 * Arena::bytes_for<uint64_t>(slots * words) +
         Arena::bytes_for<uint64_t>(slots * config.members) +
         Arena::bytes_for<Operation>(table_size(config.operations)) +
         OrderList::bytes_needed(config.slots);
}

SlotPool::SlotPool(const SlotPoolConfig& config, std::span<std::byte> memory)
    : config_(config),
      patience_(config.reorder_window, config.ask_interval),
      words_(words_for(config.members)),
      open_([&] {
        SUMCAST_ASSERT(config.members >= 1);
        SUMCAST_ASSERT(config.slots >= 1 && config.slots < OrderList::kNone);
        SUMCAST_ASSERT(config.operations >= 1);
        Arena arena(memory);
        const size_t slots = config.slots;
        slots_ = arena.take<Slot>(slots);
        for (Slot& slot : slots_) slot.phase = config.first_phase;
        seen_ = arena.take<uint64_t>(slots * words_);
        quiet_ = arena.take<uint64_t>(2 * slots * words_);
        payloads_ = arena.take<uint64_t>(slots * config.members);
        operations_ = arena.take<Operation>(table_size(config.operations));
        return OrderList(config.slots, arena);
      }()) {}

std::span<uint64_t> SlotPool::seen_words(uint16_t slot) const {
  return seen_.subspan(size_t{slot} * words_, words_);
}
std::span<uint64_t> SlotPool::quiet_words(uint16_t slot, uint32_t version) const {
  return quiet_.subspan((size_t{version} * config_.slots + slot) * words_, words_);
}
std::span<const uint64_t> SlotPool::payloads(uint16_t slot) const {
  return payloads_.subspan(size_t{slot} * config_.members, config_.members);
}
bool SlotPool::has_counted(uint16_t slot, uint16_t member) const {
  return slots_[slot].counted != 0 && test_bit(seen_words(slot), member);
}
bool SlotPool::wants_lanes(uint16_t slot, uint16_t member) const {
  return !test_bit(quiet_words(slot, slots_[slot].stored.phase & 1u), member);
}

Verdict SlotPool::on_contribution(const Contribution& in, Instant now) {
  if (in.slot >= config_.slots || in.member >= config_.members || in.chunk >= in.total ||
      in.digest == 0) {
    return Verdict::kForeign;
  }
  Slot& slot = slots_[in.slot];
  if (in.phase != slot.phase) {
    // P3: one phase back is answered; every other one is from another time.
    return slot.stored.valid && in.phase == slot.stored.phase ? Verdict::kAnswer : Verdict::kStale;
  }
  if (slot.counted == 0) {
    if (!open(slot, in.slot, in, now)) return Verdict::kForeign;
  } else if (in.digest != slot.digest || in.chunk != slot.chunk || in.total != slot.total) {
    return Verdict::kMismatch;  // P4
  } else if (test_bit(seen_words(in.slot), in.member)) {
    return Verdict::kDuplicate;  // P1
  }
  set_bit(seen_words(in.slot), in.member);
  if (in.quiet) set_bit(quiet_words(in.slot, slot.phase & 1u), in.member);
  payloads_[size_t{in.slot} * config_.members + in.member] = in.payload;
  if (++slot.counted < config_.members) return Verdict::kAccepted;
  complete(slot, in.slot, now);  // P2: only when every member was counted.
  return Verdict::kCompleted;
}

/// The first contribution of a phase defines what the slot collects.
bool SlotPool::open(Slot& slot, uint16_t index, const Contribution& in, Instant now) {
  if (find_or_add_operation(in.digest, in.total, now) == nullptr) return false;
  // Within an operation, the quickest member has just had the result before.
  if (slot.stored.valid && slot.stored.digest == in.digest) {
    patience_.on_round_trip(now - slot.completed_at);
  }
  slot.digest = in.digest;
  slot.chunk = in.chunk;
  slot.total = in.total;
  slot.first_member = in.member;
  slot.overtaken = false;
  slot.opened_at = now;
  slot.ask_at = Instant{};  // Asks made in the phase before do not count.
  std::ranges::fill(seen_words(index), 0u);
  std::ranges::fill(quiet_words(index, slot.phase & 1u), 0u);
  open_.append(index);
  if (first_fresh_ == OrderList::kNone) first_fresh_ = index;
  return true;
}

void SlotPool::complete(Slot& slot, uint16_t index, Instant now) {
  // Members that keep to the protocol never fill more slots than the operation has chunks. Others
  // may, and then it is gone before its last slot completes: that spoils their own sums only.
  Operation* operation = find_operation(slot.digest);
  const uint32_t next = operation != nullptr ? operation->next++ : slot.total;  // P7
  slot.completed_at = now;
  slot.stored = StoredResult{true, slot.phase, slot.digest, slot.chunk, next, now - slot.opened_at};
  finished_.reset();
  if (operation != nullptr && ++operation->completed == operation->total) {
    finished_ = now - operation->opened_at;
    erase_operation(operation);
  }
  mark_overtaken_before(index, now);
  open_.remove(index);
  slot.counted = 0;
  ++slot.phase;
}

/// A slot that completes has overtaken every slot opened before it. Overtaken slots form the front
/// of open_, so each is marked once.
void SlotPool::mark_overtaken_before(uint16_t index, Instant now) {
  if (slots_[index].overtaken) return;
  while (first_fresh_ != index) {
    SUMCAST_ASSERT(first_fresh_ != OrderList::kNone);
    Slot& late = slots_[first_fresh_];
    late.overtaken = true;
    late.ask_at = now + patience_.reorder();
    next_ask_ = std::min(next_ask_, late.ask_at);
    first_fresh_ = open_.next(first_fresh_);
  }
  first_fresh_ = open_.next(index);
}

void SlotPool::ask_missing(uint16_t index, BoundedList<Ask>& asks, Instant now) {
  if (asks.full()) return;  // Still due.
  slots_[index].ask_at = now + patience_.repeat();
  const auto seen = seen_words(index);
  for (uint16_t member = 0; member < config_.members; ++member) {
    if (test_bit(seen, member)) continue;
    if (asks.full()) return;  // What does not fit is asked at the next interval.
    asks.push(Ask{member, index});
  }
}

ProbeVerdict SlotPool::on_probe(uint16_t member, uint16_t index, uint32_t phase, Instant now,
                                BoundedList<Ask>& asks) {
  if (index >= config_.slots || member >= config_.members) return ProbeVerdict::kForeign;
  Slot& slot = slots_[index];
  if (slot.stored.valid && phase == slot.stored.phase) return ProbeVerdict::kAnswer;
  if (phase != slot.phase) return ProbeVerdict::kStale;
  if (!has_counted(index, member)) return ProbeVerdict::kAskProber;
  // P6: only the losers resend, and all members' probes together make them do so once.
  if (now >= slot.ask_at) ask_missing(index, asks, now);
  return ProbeVerdict::kWaiting;
}

uint16_t SlotPool::find_result(uint32_t digest, uint32_t number) const {
  for (uint16_t i = 0; i < config_.slots; ++i) {
    const StoredResult& stored = slots_[i].stored;
    if (stored.valid && stored.digest == digest && stored.number == number) return i;
  }
  return OrderList::kNone;
}

void SlotPool::on_timeout(Instant now, BoundedList<Ask>& asks) {
  if (now < next_ask_) return;
  next_ask_ = Instant::never();
  for (uint16_t i = open_.head(); i != OrderList::kNone && slots_[i].overtaken; i = open_.next(i)) {
    if (now >= slots_[i].ask_at) ask_missing(i, asks, now);
    next_ask_ = std::min(next_ask_, std::max(slots_[i].ask_at, now + Duration(1)));
  }
}

SlotPool::Operation* SlotPool::find_operation(uint32_t digest) {
  const auto mask = static_cast<uint32_t>(operations_.size() - 1);
  for (uint32_t i = digest & mask; operations_[i].digest != 0; i = (i + 1) & mask) {
    if (operations_[i].digest == digest) return &operations_[i];
  }
  return nullptr;
}

SlotPool::Operation* SlotPool::find_or_add_operation(uint32_t digest, uint32_t total, Instant now) {
  if (Operation* known = find_operation(digest)) return known->total == total ? known : nullptr;
  if (operations_live_ == config_.operations) return nullptr;
  const auto mask = static_cast<uint32_t>(operations_.size() - 1);
  uint32_t i = digest & mask;
  while (operations_[i].digest != 0) i = (i + 1) & mask;
  operations_[i] = Operation{digest, total, std::min<uint32_t>(total, config_.slots), 0, now};
  ++operations_live_;
  return &operations_[i];
}

/// Linear probing needs no tombstones if the entries behind the hole move up.
void SlotPool::erase_operation(Operation* operation) {
  const auto mask = static_cast<uint32_t>(operations_.size() - 1);
  auto hole = static_cast<uint32_t>(operation - operations_.data());
  for (uint32_t i = (hole + 1) & mask; operations_[i].digest != 0; i = (i + 1) & mask) {
    const uint32_t home = operations_[i].digest & mask;
    if (((i - home) & mask) >= ((i - hole) & mask)) {
      operations_[hole] = operations_[i];
      hole = i;
    }
  }
  operations_[hole] = Operation{};
  --operations_live_;
}

}  // namespace sumcast::core
