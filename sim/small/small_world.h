// Two workers and one shard of two slots, small enough to try everything that can happen.
//
// The state is the real pool and the real windows, the datagrams in flight (a bag: any of them may
// be the next to arrive) and what is left of the budgets for faults. A step delivers, drops or
// doubles one datagram, submits a worker's next operation, or lets one timer fire; what it does is
// what the shells do. Payloads are tokens, compared with the scalar reference.
//
// There is no clock. Intervals are zero and a timer step jumps an hour, so that whatever could be
// due at some speed of the world is due, and no state depends on when something happened.
//
// The state is one plain struct, copied to save it and copied back to the same place: pool and
// windows point into their memory there.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/send_window.h"
#include "core/slot_pool.h"

namespace sumcast::sim {

struct SmallOperation {
  uint32_t chunks = 1, first_slot = 0;
};

struct SmallWorldConfig {
  std::vector<SmallOperation> operations;
  uint32_t in_flight_max = 2;                  ///< Per worker.
  uint8_t drops = 1, doubles = 1, timers = 1;  ///< Budgets.
  /// Judge contributions by version bit, as published SwitchML does: wrong under reordering.
  bool version_bit_only = false;
};

class SmallWorld {
 public:
  static constexpr uint16_t kMembers = 2, kSlots = 2;
  static constexpr size_t kOperationsMax = 3, kChunksMax = 8, kFlightsMax = 40;

  struct Flight {
    enum class Kind : uint8_t { kContribution, kResult, kProbe, kGap, kAsk };
    Kind kind{};
    uint8_t member = 0, slot = 0;
    uint8_t operation = 0, chunk = 0;
    uint32_t phase = 0;
    uint32_t number = 0;  ///< Of a result, or wanted by a gap.
    uint64_t content = 0;
    auto operator<=>(const Flight&) const = default;
  };
  struct Step {
    enum class Kind : uint8_t { kDeliver, kDrop, kDouble, kSubmit, kProbe, kGap, kAsk };
    Kind kind{};
    uint16_t which = 0;  ///< A datagram in flight, or a member.
  };
  struct State {
    State(const core::SlotPoolConfig& pool_config, const core::SendWindowConfig& window_config);
    static constexpr size_t kMemory = 1024;
    std::array<std::array<std::byte, kMemory>, 1 + kMembers> memory{};
    core::SlotPool pool;
    std::array<core::SendWindow, kMembers> windows;
    Instant now{1};
    std::array<Flight, kFlightsMax> flights{};  // Sorted: the order of the bag has no meaning.
    size_t flights_count = 0;
    uint8_t drops = 0, doubles = 0, timers = 0;
    std::array<uint8_t, kMembers> submitted{};
    std::array<uint64_t, kSlots> sums{};                // Of the stored results.
    std::array<uint8_t, kOperationsMax> completions{};  // By the pool.
    std::array<std::array<uint8_t, kOperationsMax>, kMembers> delivered{};  // Bits of chunks.
    std::array<std::array<uint32_t, kSlots>, kMembers> held{};  // Results accepted, per slot.
  };

  explicit SmallWorld(const SmallWorldConfig& config);
  SmallWorld(const SmallWorld&) = delete;
  SmallWorld& operator=(const SmallWorld&) = delete;

  /// The steps that are possible now, without those that lead to the same state.
  std::vector<Step> steps() const;
  void take(const Step& step);
  State save() const { return state_; }
  /// @param saved of this world.
  void restore(const State& saved) { state_ = saved; }
  /// Equal for states that nothing that follows can tell apart. It tries pool and windows out to
  /// see what is private in them, and restores them.
  uint64_t fingerprint();
  /// No more faults: delivers everything, lets every timer fire when nothing is in flight, and so
  /// on. @return true once everything was delivered to everybody.
  bool finishes();
  bool complete() const;
  /// Empty, or what went wrong first.
  const std::string& violation() const { return violation_; }
  std::string describe(const Step& step) const;

 private:
  void put(const Flight& flight);
  Flight pick(size_t index);
  void submit(uint16_t member);
  void send_ready(uint16_t member);
  void arrive(const Flight& flight);
  void contribution_arrives(const Flight& flight);
  void probe_arrives(const Flight& flight);
  void result_arrives(const Flight& flight);
  void send_result(uint16_t member, uint16_t slot);
  void send_asks(const BoundedList<core::Ask>& asks);
  void window_timer(uint16_t member, bool probes_due, bool gaps_due);
  void ask_timer();
  void check_sum(uint16_t slot);
  void fail(const std::string& what);

  SmallWorldConfig config_;
  State state_;
  std::string violation_;
};

}  // namespace sumcast::sim
