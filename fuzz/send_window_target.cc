// Starting state x calls for the send window. Result numbers are arbitrary: an aggregator that
// sends nonsense may spoil the sums of its own job, but not memory and not the window's books.
#include <algorithm>
#include <array>
#include <vector>

#include "base/assert.h"
#include "base/ids.h"
#include "core/send_window.h"
#include "fuzz/byte_source.h"
#include "fuzz/targets.h"

namespace sumcast::fuzz {
namespace {

enum class Start : uint8_t {
  kFresh,
  kReady,      ///< Two operations are submitted.
  kInFlight,   ///< Everything that fits is sent.
  kGaps,       ///< A result has skipped numbers.
  kAbandoned,  ///< Stopped with all of that going on.
};
constexpr uint32_t kStarts = 5;

class WindowUnderTest {
 public:
  explicit WindowUnderTest(const core::SendWindowConfig& config)
      : config_(config),
        memory_(core::SendWindow::bytes_needed(config)),
        window_(config, memory_),
        phases_(config.slots) {}

  void prepare(Start start) {
    if (start == Start::kFresh) return;
    for (int i = 0; i < 2 && !window_.full(); ++i) submit(9, 0);
    if (start == Start::kReady) return;
    fill(255, 16);
    if (start == Start::kInFlight) return;
    result(0, 0, kFirstDigest, config_.slots + 3u);
    if (start == Start::kGaps) return;
    window_.abandon();
    SUMCAST_ASSERT(window_.idle());
    SUMCAST_ASSERT(!window_.wants_to_send());
  }

  void call(ByteSource& in) {
    now_ = now_ + std::chrono::microseconds(in.u8());
    switch (in.below(6)) {
      case 0:
        if (!window_.full()) submit(1 + in.below(12), in.near(in.u8()));
        break;
      case 1:
        fill(in.below(9), in.below(17));
        break;
      case 2:
      case 3:
        read_result(in);
        break;
      case 4:
        ask(in);
        break;
      case 5:
        time_out(in);
        break;
    }
    check();
  }

 private:
  static constexpr uint32_t kFirstDigest = 100;

  void submit(uint32_t total, uint32_t first_slot) {
    const core::Ticket ticket = window_.submit(kFirstDigest + submitted_, total, first_slot);
    SUMCAST_ASSERT(ticket == submitted_);
    ++submitted_;
  }

  void fill(uint32_t limit, uint32_t room) {
    std::array<core::Outgoing, 16> memory;
    BoundedList<core::Outgoing> out(
        std::span<core::Outgoing>(memory).first(std::min<size_t>(room, 16)));
    const uint32_t before = window_.in_flight();
    window_.fill(now_, limit, out);
    uint32_t fresh = 0;
    for (const core::Outgoing& next : out) {
      SUMCAST_ASSERT(next.slot < config_.slots);
      SUMCAST_ASSERT(next.ticket < submitted_);
      SUMCAST_ASSERT(next.phase == phases_[next.slot]);
      SUMCAST_ASSERT(window_.expectation(next.slot).in_flight);
      fresh += next.repeat ? 0 : 1;
    }
    SUMCAST_ASSERT(window_.in_flight() == before + fresh);
    SUMCAST_ASSERT(fresh <= limit + asked_);
    if (!out.full()) asked_ = 0;  // Else some may still wait for room.
    if (room >= 16) SUMCAST_ASSERT(limit < 16 || window_.ready() == 0);
  }

  void read_result(ByteSource& in) {
    const auto slot = static_cast<uint16_t>(in.near(in.below(config_.slots)));
    const auto expected = window_.expectation(slot);
    const uint32_t phase = in.near(expected.phase);
    const uint32_t digest = in.near(kFirstDigest + expected.ticket);
    result(slot, phase, digest, in.near(in.below(24)));
  }

  void result(uint16_t slot, uint32_t phase, uint32_t digest, uint32_t number) {
    const auto before = window_.expectation(slot);
    core::Delivery delivery;
    switch (window_.on_result(slot, phase, digest, number, now_, delivery)) {
      case core::ResultVerdict::kAccepted:
        SUMCAST_ASSERT(before.in_flight);
        SUMCAST_ASSERT(before.phase == phase);
        SUMCAST_ASSERT(delivery.ticket == before.ticket);
        SUMCAST_ASSERT(delivery.chunk == before.chunk);
        SUMCAST_ASSERT(delivery.since_sent.count() >= 0);
        ++phases_[slot];
        break;
      case core::ResultVerdict::kDuplicate:
        SUMCAST_ASSERT(serial_before(phase, phases_[slot]));
        break;
      case core::ResultVerdict::kStale:
        SUMCAST_ASSERT(slot < config_.slots);
        break;
      case core::ResultVerdict::kForeign:
        SUMCAST_ASSERT(slot >= config_.slots);
        break;
    }
  }

  void ask(ByteSource& in) {
    const auto slot = static_cast<uint16_t>(in.near(in.below(config_.slots)));
    const uint32_t phase = in.near(window_.expectation(slot).phase);
    if (!window_.on_ask(slot, phase)) return;
    SUMCAST_ASSERT(slot < config_.slots);
    SUMCAST_ASSERT(phase == phases_[slot]);
    SUMCAST_ASSERT(window_.wants_to_send());
    ++asked_;
  }

  void time_out(ByteSource& in) {
    const Duration rto = std::chrono::microseconds(1 + in.u8());
    std::array<core::Want, 8> probe_memory, gap_memory;
    BoundedList<core::Want> probes(std::span<core::Want>(probe_memory).first(in.below(9)));
    BoundedList<core::Want> gaps(std::span<core::Want>(gap_memory).first(in.below(9)));
    const bool due = window_.next_deadline(rto) <= now_;
    window_.on_timeout(now_, rto, probes, gaps);
    SUMCAST_ASSERT(due || (probes.empty() && gaps.empty()));
    for (const core::Want& probe : probes) {
      SUMCAST_ASSERT(window_.expectation(probe.slot).in_flight);
      SUMCAST_ASSERT(probe.phase_or_number == phases_[probe.slot]);
    }
  }

  void check() const {
    uint32_t in_flight = 0;
    for (uint16_t s = 0; s < config_.slots; ++s) {
      in_flight += window_.expectation(s).in_flight ? 1 : 0;
      SUMCAST_ASSERT(window_.phase(s) == phases_[s]);
    }
    SUMCAST_ASSERT(window_.in_flight() == in_flight);
    SUMCAST_ASSERT(window_.in_flight() + window_.ready() <= config_.slots);
  }

  core::SendWindowConfig config_;
  std::vector<std::byte> memory_;
  core::SendWindow window_;
  std::vector<uint32_t> phases_;
  Instant now_{1};
  uint32_t submitted_ = 0;
  uint32_t asked_ = 0;  // Asks heeded, at most so many not yet sent.
};

}  // namespace

void send_window(std::span<const uint8_t> bytes) {
  ByteSource in(bytes);
  const auto start = static_cast<Start>(in.below(kStarts));
  core::SendWindowConfig config;
  config.slots = static_cast<uint16_t>(1 + in.below(6));
  config.operations = static_cast<uint16_t>(1 + in.below(4));
  config.reorder_window = std::chrono::microseconds(in.u8());
  config.gap_interval = std::chrono::microseconds(in.u8());
  WindowUnderTest window(config);
  window.prepare(start);
  while (!in.empty()) window.call(in);
}

}  // namespace sumcast::fuzz
