// The worker's half of the protocol for one group and one shard, as a pure state machine: which
// chunk goes into which slot and phase now, what a result means, what must be asked for again.
//
// Operations wait in call order. Chunk i of an operation, while i < slots, has a fixed place: slot
// (first_slot + i) mod slots, as soon as every earlier operation is done with that slot. All later
// chunks are handed out by results (P7). So all members agree on every (slot, phase) without a
// word, whatever the timing:
//
//     slot 0:  A0 -- A4 -- A6 | B3 | ...         A: 7 chunks from slot 0, B: 4 chunks from slot 1
//     slot 1:  A1 -- A5 ------| B0 | ...         (4 slots; who takes A4..A6 is decided by results)
//
// It does not see lanes, sockets or clocks, and does not decide how much may be in flight: its
// caller gives fill() a limit (congestion.h).
#pragma once

#include <cstdint>
#include <span>

#include "base/arena.h"
#include "base/time.h"
#include "core/order_list.h"
#include "core/patience.h"

namespace sumcast::core {

struct SendWindowConfig {
  uint16_t slots = 1;
  uint16_t operations = 256;  ///< Must not exceed SlotPoolConfig::operations of the shard.
  Duration reorder_window = std::chrono::milliseconds(1);  ///< Longest before a skip is a gap.
  Duration gap_interval = std::chrono::milliseconds(15);   ///< Longest before it is told again.
  uint32_t first_phase = 0;                                ///< As the shard's pool begins.
};

/// Counts the operations submitted to this window, from 0; wraps, compared serially.
using Ticket = uint32_t;

/// One contribution to be sent now.
struct Outgoing {
  uint16_t slot = 0;
  uint32_t phase = 0;
  Ticket ticket = 0;
  uint32_t chunk = 0;
  bool repeat = false;
};

/// What a result did.
struct Delivery {
  Ticket ticket = 0;
  uint32_t chunk = 0;
  bool operation_complete = false;  ///< That was the last chunk of this shard in the operation.
  Duration since_sent{};            ///< Since this slot's contribution was last sent.
  bool repeated = false;            ///< It was sent more than once: no RTT sample (Karn).
  bool probed = false;              ///< It was overdue, or skipped, and asked for.
};

enum class ResultVerdict : uint8_t {
  kAccepted,   ///< `Delivery` says where its lanes belong.
  kDuplicate,  ///< Of a phase that is done.
  kStale,      ///< Of a phase not sent, or of another operation.
  kForeign,    ///< No such slot.
};

/// "I wait for this": what goes into a probe (phase) or gap (number) note.
struct Want {
  uint16_t slot = 0;
  uint32_t phase_or_number = 0;
  uint32_t digest = 0;
};

/// Single-threaded.
class SendWindow {
 public:
  static size_t bytes_needed(const SendWindowConfig& config);
  SendWindow(const SendWindowConfig& config, std::span<std::byte> memory);

  /// No room for another operation until the oldest one is complete.
  bool full() const { return operations_live_ == config_.operations; }
  /// Queues an operation. @param total chunks of this shard, >= 1. Precondition: !full().
  Ticket submit(uint32_t digest, uint32_t total, uint32_t first_slot);

  /// Takes up to out.room() contributions to send: those that were asked for, whatever the limit,
  /// then at most `fresh_limit` new ones. They count as sent at `now`.
  void fill(Instant now, uint32_t fresh_limit, BoundedList<Outgoing>& out);
  bool wants_to_send() const { return !urgent_.empty() || !ready_.empty(); }
  uint32_t ready() const { return static_cast<uint32_t>(ready_.size()); }

  /// @param number the result's total_or_next field.
  [[nodiscard]] ResultVerdict on_result(uint16_t slot, uint32_t phase, uint32_t digest,
                                        uint32_t number, Instant now, Delivery& delivery);
  /// The shard asks for a contribution. @return false if the slot is idle or in another phase.
  bool on_ask(uint16_t slot, uint32_t phase);
  /// Whether an ask that comes at `now` left before the slot's contribution could be there: they
  /// crossed, and nothing was lost. Not if the contribution was probed since: the ask may be the
  /// answer. @param round_trip  the least one of the path.
  bool crosses(uint16_t slot, Instant now, Duration round_trip) const {
    if (slot >= config_.slots) return false;
    const Slot& s = slots_[slot];
    return s.state == State::kInFlight && s.acted_at == s.sent_at && now < s.sent_at + round_trip;
  }

  /// Contributions without a result for `rto` (doubled with each fruitless round) go to `probes`;
  /// result numbers skipped for reorder_window go to `gaps`.
  /// @return how many of the gaps were not told before: results that were lost.
  uint32_t on_timeout(Instant now, Duration rto, BoundedList<Want>& probes,
                      BoundedList<Want>& gaps);
  Instant next_deadline(Duration rto) const;

  uint32_t in_flight() const { return in_flight_; }
  bool idle() const { return operations_live_ == 0; }
  uint64_t repeats() const { return repeats_; }
  uint32_t phase(uint16_t slot) const { return slots_[slot].phase; }
  /// What a slot waits for, so that a result's length can be checked before it is accepted.
  struct Expectation {
    bool in_flight = false;
    uint32_t phase = 0;
    Ticket ticket = 0;
    uint32_t chunk = 0;
  };
  Expectation expectation(uint16_t slot) const {
    if (slot >= config_.slots) return {};
    const Slot& s = slots_[slot];
    return {s.state == State::kInFlight, s.phase, s.ticket, s.chunk};
  }
  const SendWindowConfig& config() const { return config_; }
  /// Forgets every operation; slots keep their phases. The group is unusable afterwards.
  void abandon();

 private:
  enum class State : uint8_t { kIdle, kReady, kInFlight };
  struct Slot {
    uint32_t phase = 0;  // Of the contribution ready or in flight, else of the next one.
    Ticket ticket = 0;
    uint32_t chunk = 0;
    State state = State::kIdle;
    bool urgent = false;  // Queued in urgent_.
    bool repeated = false;
    Instant sent_at{};   // Last sent.
    Instant acted_at{};  // Last sent or probed.
  };
  struct Operation {
    uint32_t digest = 0, total = 0, first_slot = 0, completed = 0;
    uint32_t number_high = 0;  // Highest result number seen, plus one.
  };
  struct Gap {
    uint32_t digest = 0, number = 0;
    Instant report_at{};
    bool told = false;
  };

  Operation& operation(Ticket ticket) { return operations_[ticket & (operations_.size() - 1)]; }
  void make_ready(uint16_t index, Ticket ticket, uint32_t chunk);
  void claim_next_operation(uint16_t index, Ticket after);
  bool note_number(Operation& op, uint32_t number, Instant now);
  void retire_complete_operations();
  Duration backed_off(Duration rto) const;

  SendWindowConfig config_;
  Patience patience_;
  std::span<Slot> slots_;
  std::span<Operation> operations_;  // Ring by ticket; a power of two, since tickets wrap.
  std::span<Gap> gap_memory_;
  uint32_t gaps_ = 0;
  Ring<uint16_t> ready_, urgent_;
  OrderList flight_;  // In flight, by acted_at.
  Ticket oldest_ = 0, next_ticket_ = 0;
  uint32_t operations_live_ = 0;
  uint32_t in_flight_ = 0;
  uint32_t backoff_ = 0;  // Doublings of the RTO.
  uint64_t repeats_ = 0;
};

}  // namespace sumcast::core
