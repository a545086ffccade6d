// Starting state x calls for the slot pool, each call compared with the plain model.
#include <array>
#include <vector>

#include "base/assert.h"
#include "core/slot_pool.h"
#include "fuzz/byte_source.h"
#include "fuzz/pool_model.h"
#include "fuzz/targets.h"

namespace sumcast::fuzz {
namespace {

enum class Start : uint8_t {
  kFresh,
  kAllOpen,         ///< Every slot has one member.
  kOneMissing,      ///< Every slot waits for the last member.
  kSecondPhase,     ///< Every slot keeps a result and is empty.
  kOperationsFull,  ///< No further operation is admitted.
  kOvertaken,       ///< Slot 0 is open, all others completed after it.
};
constexpr uint32_t kStarts = 6;

class PoolUnderTest {
 public:
  explicit PoolUnderTest(const core::SlotPoolConfig& config)
      : config_(config),
        memory_(core::SlotPool::bytes_needed(config)),
        pool_(config, memory_),
        model_(config) {}

  void prepare(Start start) {
    const auto last = static_cast<uint16_t>(config_.members - 1);
    switch (start) {
      case Start::kFresh:
        return;
      case Start::kAllOpen:
        for (uint16_t s = 0; s < config_.slots; ++s) contribute(at(s, 0, 1));
        return;
      case Start::kOneMissing:
        for (uint16_t s = 0; s < config_.slots; ++s) fill(s, last);
        return;
      case Start::kSecondPhase:
        for (uint16_t s = 0; s < config_.slots; ++s) fill(s, config_.members);
        return;
      case Start::kOperationsFull:
        for (uint16_t s = 0; s < config_.slots; ++s) contribute(at(s, 0, 1u + s));
        return;
      case Start::kOvertaken:
        contribute(at(0, 0, 1));
        for (uint16_t s = 1; s < config_.slots; ++s) fill(s, config_.members);
        return;
    }
  }

  void call(ByteSource& in) {
    now_ = now_ + std::chrono::microseconds(in.u8());
    switch (in.below(8)) {
      case 0:
        return time_out(in);
      case 1:
        return probe(in);
      case 2:
        return find(in);
      default:
        return contribute(read(in));
    }
  }

 private:
  static constexpr uint32_t kTotal = 6;

  core::Contribution at(uint16_t slot, uint16_t member, uint32_t digest) const {
    core::Contribution in;
    in.slot = slot;
    in.member = member;
    in.phase = pool_.phase(slot);
    in.digest = digest;
    in.chunk = slot % kTotal;
    in.total = kTotal;
    return in;
  }
  void fill(uint16_t slot, uint16_t members) {
    for (uint16_t m = 0; m < members; ++m) contribute(at(slot, m, 1));
  }

  /// A contribution that mostly makes sense.
  core::Contribution read(ByteSource& in) const {
    core::Contribution c;
    c.slot = static_cast<uint16_t>(in.near(in.below(config_.slots)));
    c.member = static_cast<uint16_t>(in.near(in.below(config_.members)));
    const bool exists = c.slot < config_.slots;
    c.phase = in.near(exists ? pool_.phase(c.slot) : 0);
    c.digest = in.near(1 + in.below(3));
    c.chunk = in.near(exists ? c.slot % kTotal : 0);
    c.total = in.near(kTotal);
    c.quiet = in.u8() % 4 == 0;
    return c;
  }

  void contribute(core::Contribution in) {
    in.payload = ++payload_;
    const core::Verdict expected = model_.on_contribution(in);
    SUMCAST_ASSERT(pool_.on_contribution(in, now_) == expected);
    if (in.slot < config_.slots) model_.compare(pool_, in.slot);
  }

  void probe(ByteSource& in) {
    const auto slot = static_cast<uint16_t>(in.near(in.below(config_.slots)));
    const auto member = static_cast<uint16_t>(in.near(in.below(config_.members)));
    const uint32_t phase = in.near(slot < config_.slots ? pool_.phase(slot) : 0);
    std::array<core::Ask, 8> room;
    BoundedList<core::Ask> asks(std::span<core::Ask>(room).first(in.below(8)));
    const core::ProbeVerdict verdict = pool_.on_probe(member, slot, phase, now_, asks);
    SUMCAST_ASSERT(verdict == model_.on_probe(member, slot, phase));
    SUMCAST_ASSERT(asks.empty() || verdict == core::ProbeVerdict::kWaiting);
    check(asks);
  }

  void time_out(ByteSource& in) {
    std::array<core::Ask, 64> room;
    BoundedList<core::Ask> asks(std::span<core::Ask>(room).first(in.below(64)));
    const bool due = pool_.next_deadline() <= now_;
    pool_.on_timeout(now_, asks);
    SUMCAST_ASSERT(due || asks.empty());
    SUMCAST_ASSERT(pool_.next_deadline() > now_);
    check(asks);
  }

  /// Only members that are missing in an open slot are asked.
  void check(const BoundedList<core::Ask>& asks) const {
    for (const core::Ask& ask : asks) {
      SUMCAST_ASSERT(ask.slot < config_.slots);
      SUMCAST_ASSERT(ask.member < config_.members);
      SUMCAST_ASSERT(pool_.is_open(ask.slot));
      SUMCAST_ASSERT(!pool_.has_counted(ask.slot, ask.member));
    }
  }

  void find(ByteSource& in) const {
    const uint32_t digest = 1 + in.below(3), number = in.u8();
    const uint16_t slot = pool_.find_result(digest, number);
    if (slot == core::OrderList::kNone) return;
    SUMCAST_ASSERT(pool_.stored(slot).valid);
    SUMCAST_ASSERT(pool_.stored(slot).digest == digest);
    SUMCAST_ASSERT(pool_.stored(slot).number == number);
  }

  core::SlotPoolConfig config_;
  std::vector<std::byte> memory_;
  core::SlotPool pool_;
  PoolModel model_;
  Instant now_{1};
  uint64_t payload_ = 0;
};

}  // namespace

void slot_pool(std::span<const uint8_t> bytes) {
  ByteSource in(bytes);
  const auto start = static_cast<Start>(in.below(kStarts));
  core::SlotPoolConfig config;
  // 65 members make the bitmap two words wide.
  constexpr uint16_t kMembers[] = {1, 2, 3, 65};
  config.members = kMembers[in.below(4)];
  config.slots = static_cast<uint16_t>(1 + in.below(5));
  config.operations = static_cast<uint16_t>(1 + in.below(4));
  if (start == Start::kOperationsFull) config.operations = config.slots;
  config.reorder_window = std::chrono::microseconds(in.u8());
  config.ask_interval = std::chrono::microseconds(in.u8());
  PoolUnderTest pool(config);
  pool.prepare(start);
  while (!in.empty()) pool.call(in);
}

}  // namespace sumcast::fuzz
