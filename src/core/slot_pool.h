// The aggregator's heart: the slots of one group in one shard, as a pure state machine.
//
// It decides what a datagram means: counted, complete, already known, too old, or part of another
// operation. It does not see lanes (payloads are opaque numbers that its owner gives it), it does
// not add, send or read a clock.
//
// A slot collects one phase at a time. Everything of the phase before is known to be complete, and
// its result is kept until the current phase completes: the completion of phase v proves that every
// member held the result of v-1 (a member sends v only after it has that result, P2). So two result
// buffers a slot suffice, version = phase & 1, and nothing is ever cleared.
//
//      phase:    v-1 (result kept)      v (collecting)       anything else
//      verdict:  kAnswer                kAccepted/...        kStale
//
// Which chunk a slot takes next is decided here, when it completes: the operation's lowest chunk
// not yet handed out (P7). These numbers also order the results, so that a worker sees a lost
// result as a gap.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "base/arena.h"
#include "base/time.h"
#include "core/order_list.h"
#include "core/patience.h"

namespace sumcast::core {

struct SlotPoolConfig {
  uint16_t members = 1;       ///< Size of the group, 1..65535.
  uint16_t slots = 1;         ///< 1..65534.
  uint16_t operations = 256;  ///< Operations that may be incomplete at once (P8).
  Duration reorder_window = std::chrono::milliseconds(1);  ///< Longest grace of an overtaken slot.
  Duration ask_interval = std::chrono::milliseconds(15);   ///< Longest before it asks again.
  uint32_t first_phase = 0;                                ///< Of every slot.
};

/// One worker's addend, as its header told. `slot` and `member` are indices in this group.
struct Contribution {
  uint16_t slot = 0;
  uint16_t member = 0;
  uint32_t phase = 0;
  uint32_t digest = 0;
  uint32_t chunk = 0;
  uint32_t total = 0;    ///< Chunks that this shard owns in the operation, >= 1.
  bool quiet = false;    ///< Wants no lanes back.
  uint64_t payload = 0;  ///< Opaque; returned by payloads().
};

enum class Verdict : uint8_t {
  kAccepted,   ///< Counted; the slot waits for others.
  kCompleted,  ///< Counted, and it was the last: fold payloads(slot), send stored(slot) to all.
  kDuplicate,  ///< Counted before in this phase: dropped.
  kAnswer,     ///< Of the phase before: send stored(slot) to this member again.
  kStale,      ///< Of any other phase: dropped (P3).
  kMismatch,   ///< Another operation, chunk or total than the slot's first contribution (P4).
  kForeign,    ///< Slot, member, chunk or total out of range, or too many operations: dropped.
};

/// The result that a slot keeps, and with it the slot's next chunk.
struct StoredResult {
  bool valid = false;
  uint32_t phase = 0;
  uint32_t digest = 0;
  uint32_t chunk = 0;
  uint32_t number = 0;  ///< The chunk this slot takes next; >= the total if none is left.
  Duration waited{0};   ///< From the phase's first contribution to its last.
};

/// "Ask `member` to send its contribution to `slot` again."
struct Ask {
  uint16_t member = 0;
  uint16_t slot = 0;
};

/// What a probe of one slot calls for.
enum class ProbeVerdict : uint8_t { kAnswer, kAskProber, kWaiting, kStale, kForeign };

/// Single-threaded.
class SlotPool {
 public:
  static size_t bytes_needed(const SlotPoolConfig& config);
  /// @param memory at least bytes_needed(config); the caller's, outlives the pool.
  SlotPool(const SlotPoolConfig& config, std::span<std::byte> memory);

  /// Judges one contribution. On kAccepted and kCompleted the pool remembers `in.payload`;
  /// on kCompleted the slot already collects the next phase, so payloads(slot) must be folded
  /// before the next call.
  /// @cost O(1) amortised, no allocation.
  [[nodiscard]] Verdict on_contribution(const Contribution& in, Instant now);

  /// A member says that it waits for the result of `phase`. kWaiting: asks for the missing are
  /// added to `asks` (as room allows), unless they were made less than ask_interval ago.
  [[nodiscard]] ProbeVerdict on_probe(uint16_t member, uint16_t slot, uint32_t phase, Instant now,
                                      BoundedList<Ask>& asks);

  /// A member never saw the result with this number. @return its slot, or kNone if it is not kept.
  [[nodiscard]] uint16_t find_result(uint32_t digest, uint32_t number) const;

  /// Emits asks that are due: slots that later-opened slots overtook at least reorder_window ago.
  void on_timeout(Instant now, BoundedList<Ask>& asks);
  Instant next_deadline() const { return next_ask_; }

  /// One entry per member, in group order, of the phase that completed last (see
  /// on_contribution).
  std::span<const uint64_t> payloads(uint16_t slot) const;
  const StoredResult& stored(uint16_t slot) const { return slots_[slot].stored; }
  /// After kCompleted: how long the operation was open, if that was its last chunk.
  std::optional<Duration> finished_operation() const { return finished_; }
  /// Did this member ask for lanes in the stored result?
  bool wants_lanes(uint16_t slot, uint16_t member) const;

  uint32_t phase(uint16_t slot) const { return slots_[slot].phase; }
  uint32_t collecting_digest(uint16_t slot) const { return slots_[slot].digest; }
  bool is_open(uint16_t slot) const { return slots_[slot].counted != 0; }
  bool has_counted(uint16_t slot, uint16_t member) const;
  /// The first member counted in the slot's open phase: the other party of a mismatch.
  uint16_t first_member(uint16_t slot) const { return slots_[slot].first_member; }
  uint16_t counted(uint16_t slot) const { return slots_[slot].counted; }
  /// The slot that has been open for longest, or OrderList::kNone.
  uint16_t oldest_open() const { return open_.head(); }
  const SlotPoolConfig& config() const { return config_; }

 private:
  struct Slot {
    uint32_t phase = 0;
    uint32_t digest = 0, chunk = 0, total = 0;  // Of the open phase's first contribution.
    uint16_t counted = 0;
    uint16_t first_member = 0;
    bool overtaken = false;
    Instant ask_at{};
    Instant opened_at{}, completed_at{};
    StoredResult stored;
  };
  struct Operation {
    uint32_t digest = 0;  // 0: free.
    uint32_t total = 0, next = 0, completed = 0;
    Instant opened_at{};
  };

  bool open(Slot& slot, uint16_t index, const Contribution& in, Instant now);
  void complete(Slot& slot, uint16_t index, Instant now);
  void mark_overtaken_before(uint16_t index, Instant now);
  void ask_missing(uint16_t index, BoundedList<Ask>& asks, Instant now);
  Operation* find_operation(uint32_t digest);
  Operation* find_or_add_operation(uint32_t digest, uint32_t total, Instant now);
  void erase_operation(Operation* operation);
  std::span<uint64_t> seen_words(uint16_t slot) const;
  std::span<uint64_t> quiet_words(uint16_t slot, uint32_t version) const;

  SlotPoolConfig config_;
  Patience patience_;
  uint32_t words_;  // Of a member bitmap.
  std::span<Slot> slots_;
  std::span<uint64_t> seen_;         // [slots][words_]
  std::span<uint64_t> quiet_;        // [2][slots][words_]: of the open and of the stored phase.
  std::span<uint64_t> payloads_;     // [slots][members]
  std::span<Operation> operations_;  // Open addressing, a power of two, at most half full.
  uint32_t operations_live_ = 0;
  std::optional<Duration> finished_;
  OrderList open_;                           // Open slots, by first contribution.
  uint16_t first_fresh_ = OrderList::kNone;  // First in open_ that nothing has overtaken.
  Instant next_ask_ = Instant::never();
};

}  // namespace sumcast::core
