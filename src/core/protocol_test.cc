// Slot pool and send windows against each other, without a network: every step is chosen by the
// test. The scalar reference is the set of (operation, chunk) that must be delivered once each.
#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "base/prng.h"
#include "core/rtt.h"
#include "core/send_window.h"
#include "core/slot_pool.h"

namespace sumcast::core {
namespace {

struct Pool {
  explicit Pool(SlotPoolConfig config)
      : memory(SlotPool::bytes_needed(config)), pool(config, memory) {}
  std::vector<std::byte> memory;
  SlotPool pool;
};
struct Window {
  explicit Window(SendWindowConfig config)
      : memory(SendWindow::bytes_needed(config)), window(config, memory) {}
  std::vector<std::byte> memory;
  SendWindow window;
};

Contribution make(uint16_t member, uint16_t slot, uint32_t phase, uint32_t chunk = 0,
                  uint32_t total = 8, uint32_t digest = 77) {
  return Contribution{slot, member, phase, digest, chunk, total, false, 1000u + member};
}

TEST(SlotPool, CompletesWhenEveryMemberWasCountedOnce) {
  Pool p(SlotPoolConfig{.members = 3, .slots = 2});
  EXPECT_EQ(p.pool.on_contribution(make(2, 0, 0), Instant{1}), Verdict::kAccepted);
  EXPECT_EQ(p.pool.on_contribution(make(2, 0, 0), Instant{1}), Verdict::kDuplicate);
  EXPECT_EQ(p.pool.on_contribution(make(0, 0, 0), Instant{1}), Verdict::kAccepted);
  EXPECT_EQ(p.pool.on_contribution(make(1, 0, 0), Instant{1}), Verdict::kCompleted);
  EXPECT_EQ(p.pool.payloads(0)[0], 1000u);
  EXPECT_EQ(p.pool.payloads(0)[2], 1002u);
  EXPECT_EQ(p.pool.stored(0).number, 2u);
  EXPECT_EQ(p.pool.phase(0), 1u);
}

TEST(SlotPool, SaysHowLongASlotWaitedAndAnOperationTook) {
  Pool p(SlotPoolConfig{.members = 2, .slots = 2});
  (void)p.pool.on_contribution(make(0, 0, 0, 0, 2), Instant{100});
  (void)p.pool.on_contribution(make(0, 1, 0, 1, 2), Instant{150});
  ASSERT_EQ(p.pool.on_contribution(make(1, 0, 0, 0, 2), Instant{700}), Verdict::kCompleted);
  EXPECT_EQ(p.pool.stored(0).waited, Duration{600});
  EXPECT_FALSE(p.pool.finished_operation());
  ASSERT_EQ(p.pool.on_contribution(make(1, 1, 0, 1, 2), Instant{900}), Verdict::kCompleted);
  EXPECT_EQ(p.pool.stored(1).waited, Duration{750});
  EXPECT_EQ(p.pool.finished_operation(), Duration{800});
}

TEST(SlotPool, AnswersThePhaseBeforeAndDropsAllOthers) {
  Pool p(SlotPoolConfig{.members = 1, .slots = 1});
  EXPECT_EQ(p.pool.on_contribution(make(0, 0, 5), Instant{1}), Verdict::kStale);
  EXPECT_EQ(p.pool.on_contribution(make(0, 0, 0xFFFFFFFF), Instant{1}), Verdict::kStale);
  ASSERT_EQ(p.pool.on_contribution(make(0, 0, 0, 0), Instant{1}), Verdict::kCompleted);
  EXPECT_EQ(p.pool.on_contribution(make(0, 0, 0, 0), Instant{1}), Verdict::kAnswer);
  ASSERT_EQ(p.pool.on_contribution(make(0, 0, 1, 1), Instant{1}), Verdict::kCompleted);
  EXPECT_EQ(p.pool.on_contribution(make(0, 0, 0, 0), Instant{1}), Verdict::kStale);
}

TEST(SlotPool, NamesAMismatchOfDigestChunkOrTotal) {
  Pool p(SlotPoolConfig{.members = 2, .slots = 1});
  ASSERT_EQ(p.pool.on_contribution(make(1, 0, 0, 3), Instant{1}), Verdict::kAccepted);
  EXPECT_EQ(p.pool.on_contribution(make(0, 0, 0, 4), Instant{1}), Verdict::kMismatch);
  EXPECT_EQ(p.pool.on_contribution(make(0, 0, 0, 3, 9), Instant{1}), Verdict::kMismatch);
  EXPECT_EQ(p.pool.on_contribution(make(0, 0, 0, 3, 8, 78), Instant{1}), Verdict::kMismatch);
  EXPECT_EQ(p.pool.first_member(0), 1);
  EXPECT_EQ(p.pool.counted(0), 1);
}

TEST(SlotPool, RefusesIndicesThatDoNotExist) {
  Pool p(SlotPoolConfig{.members = 2, .slots = 2, .operations = 1});
  EXPECT_EQ(p.pool.on_contribution(make(2, 0, 0), Instant{1}), Verdict::kForeign);
  EXPECT_EQ(p.pool.on_contribution(make(0, 2, 0), Instant{1}), Verdict::kForeign);
  EXPECT_EQ(p.pool.on_contribution(make(0, 0, 0, 8, 8), Instant{1}), Verdict::kForeign);
  EXPECT_EQ(p.pool.on_contribution(make(0, 0, 0, 0, 8, 0), Instant{1}), Verdict::kForeign);
  ASSERT_EQ(p.pool.on_contribution(make(0, 0, 0), Instant{1}), Verdict::kAccepted);
  EXPECT_EQ(p.pool.on_contribution(make(0, 1, 0, 0, 8, 99), Instant{1}), Verdict::kForeign)
      << "a second operation exceeds the limit of one";
}

TEST(SlotPool, AsksTheMissingOnceASlotWasOvertakenForLongEnough) {
  const SlotPoolConfig config{.members = 2, .slots = 3, .reorder_window = 1ms, .ask_interval = 5ms};
  Pool p(config);
  const Instant t{1};
  ASSERT_EQ(p.pool.on_contribution(make(0, 0, 0, 0), t), Verdict::kAccepted);
  ASSERT_EQ(p.pool.on_contribution(make(0, 1, 0, 1), t), Verdict::kAccepted);
  EXPECT_EQ(p.pool.next_deadline(), Instant::never()) << "nothing has overtaken anything";
  ASSERT_EQ(p.pool.on_contribution(make(1, 1, 0, 1), t), Verdict::kCompleted);
  EXPECT_EQ(p.pool.next_deadline(), t + 1ms);
  std::array<Ask, 8> memory;
  BoundedList<Ask> asks(memory);
  p.pool.on_timeout(t + 999us, asks);
  EXPECT_TRUE(asks.empty());
  p.pool.on_timeout(t + 1ms, asks);
  ASSERT_EQ(asks.size(), 1u);
  EXPECT_EQ(memory[0].member, 1);
  EXPECT_EQ(memory[0].slot, 0);
  asks.clear();
  p.pool.on_timeout(t + 2ms, asks);
  EXPECT_TRUE(asks.empty());
  p.pool.on_timeout(t + 6ms, asks);
  EXPECT_EQ(asks.size(), 1u);
  ASSERT_EQ(p.pool.on_contribution(make(1, 0, 0, 0), t + 7ms), Verdict::kCompleted);
  asks.clear();
  p.pool.on_timeout(t + 100ms, asks);
  EXPECT_TRUE(asks.empty());
  EXPECT_EQ(p.pool.next_deadline(), Instant::never());
}

TEST(SlotPool, AProbeMakesOnlyTheLosersResend) {
  Pool p(SlotPoolConfig{.members = 3, .slots = 1, .ask_interval = 5ms});
  const Instant t{1};
  std::array<Ask, 8> memory;
  BoundedList<Ask> asks(memory);
  EXPECT_EQ(p.pool.on_probe(0, 0, 0, t, asks), ProbeVerdict::kAskProber);
  ASSERT_EQ(p.pool.on_contribution(make(0, 0, 0), t), Verdict::kAccepted);
  ASSERT_EQ(p.pool.on_contribution(make(2, 0, 0), t), Verdict::kAccepted);
  EXPECT_EQ(p.pool.on_probe(0, 0, 0, t, asks), ProbeVerdict::kWaiting);
  ASSERT_EQ(asks.size(), 1u);
  EXPECT_EQ(memory[0].member, 1);
  EXPECT_EQ(p.pool.on_probe(2, 0, 0, t + 1ms, asks), ProbeVerdict::kWaiting);
  EXPECT_EQ(asks.size(), 1u) << "asked a moment ago";
  ASSERT_EQ(p.pool.on_contribution(make(1, 0, 0), t), Verdict::kCompleted);
  EXPECT_EQ(p.pool.on_probe(0, 0, 0, t, asks), ProbeVerdict::kAnswer);
  EXPECT_EQ(p.pool.on_probe(0, 0, 9, t, asks), ProbeVerdict::kStale);
  EXPECT_EQ(p.pool.on_probe(0, 1, 0, t, asks), ProbeVerdict::kForeign);
}

TEST(SlotPool, FindsAResultByItsNumberWhileItIsKept) {
  Pool p(SlotPoolConfig{.members = 1, .slots = 2});
  ASSERT_EQ(p.pool.on_contribution(make(0, 1, 0, 1, 5), Instant{1}), Verdict::kCompleted);
  EXPECT_EQ(p.pool.find_result(77, 2), 1);
  EXPECT_EQ(p.pool.find_result(77, 3), OrderList::kNone);
  EXPECT_EQ(p.pool.find_result(78, 2), OrderList::kNone);
}

TEST(SlotPool, RemembersWhoWantsNoLanes) {
  Pool p(SlotPoolConfig{.members = 2, .slots = 1});
  Contribution quiet = make(1, 0, 0);
  quiet.quiet = true;
  ASSERT_EQ(p.pool.on_contribution(quiet, Instant{1}), Verdict::kAccepted);
  ASSERT_EQ(p.pool.on_contribution(make(0, 0, 0), Instant{1}), Verdict::kCompleted);
  EXPECT_TRUE(p.pool.wants_lanes(0, 0));
  EXPECT_FALSE(p.pool.wants_lanes(0, 1));
  ASSERT_EQ(p.pool.on_contribution(make(1, 0, 1, 1), Instant{1}), Verdict::kAccepted);
  EXPECT_FALSE(p.pool.wants_lanes(0, 1)) << "the stored result is still the quiet one";
}

TEST(SlotPool, ForgetsOperationsThatAreComplete) {
  Pool p(SlotPoolConfig{.members = 1, .slots = 1, .operations = 3});
  for (uint32_t i = 0; i < 10000; ++i) {
    ASSERT_EQ(p.pool.on_contribution(make(0, 0, i, 0, 1, 1 + i * 8), Instant{1}),
              Verdict::kCompleted);
  }
}

TEST(SendWindow, SendsFixedChunksFirstAndThenWhatResultsName) {
  Window w(SendWindowConfig{.slots = 2});
  w.window.submit(77, 3, 1);
  std::array<Outgoing, 8> memory;
  BoundedList<Outgoing> out(memory);
  w.window.fill(Instant{1}, 8, out);
  ASSERT_EQ(out.size(), 2u);
  EXPECT_EQ(memory[0].slot, 1);
  EXPECT_EQ(memory[0].chunk, 0u);
  EXPECT_EQ(memory[1].slot, 0);
  EXPECT_EQ(memory[1].chunk, 1u);
  Delivery d;
  EXPECT_EQ(w.window.on_result(0, 1, 77, 2, Instant{2}, d), ResultVerdict::kStale);
  EXPECT_EQ(w.window.on_result(0, 0, 78, 2, Instant{2}, d), ResultVerdict::kStale);
  EXPECT_EQ(w.window.on_result(2, 0, 77, 2, Instant{2}, d), ResultVerdict::kForeign);
  ASSERT_EQ(w.window.on_result(0, 0, 77, 2, Instant{2}, d), ResultVerdict::kAccepted);
  EXPECT_EQ(d.chunk, 1u);
  EXPECT_EQ(w.window.on_result(0, 0, 77, 2, Instant{2}, d), ResultVerdict::kDuplicate);
  out.clear();
  w.window.fill(Instant{3}, 8, out);
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(memory[0].chunk, 2u);
  EXPECT_EQ(memory[0].phase, 1u);
  ASSERT_EQ(w.window.on_result(1, 0, 77, 3, Instant{4}, d), ResultVerdict::kAccepted);
  EXPECT_FALSE(d.operation_complete);
  ASSERT_EQ(w.window.on_result(0, 1, 77, 4, Instant{4}, d), ResultVerdict::kAccepted);
  EXPECT_TRUE(d.operation_complete);
  EXPECT_TRUE(w.window.idle());
}

TEST(SendWindow, StaysWithinTheLimitItIsGiven) {
  Window w(SendWindowConfig{.slots = 8});
  w.window.submit(77, 100, 0);
  std::array<Outgoing, 16> memory;
  BoundedList<Outgoing> out(memory);
  w.window.fill(Instant{1}, 3, out);
  EXPECT_EQ(out.size(), 3u);
  EXPECT_EQ(w.window.in_flight(), 3u);
  EXPECT_EQ(w.window.ready(), 5u);
}

TEST(SendWindow, ProbesAfterTheTimeoutAndBacksOff) {
  Window w(SendWindowConfig{.slots = 1});
  w.window.submit(77, 1, 0);
  std::array<Outgoing, 4> memory;
  BoundedList<Outgoing> out(memory);
  w.window.fill(Instant{1}, 4, out);
  std::array<Want, 4> probe_memory, gap_memory;
  BoundedList<Want> probes(probe_memory), gaps(gap_memory);
  EXPECT_EQ(w.window.next_deadline(10ms), Instant{1} + 10ms);
  w.window.on_timeout(Instant{1} + 9ms, 10ms, probes, gaps);
  EXPECT_TRUE(probes.empty());
  w.window.on_timeout(Instant{1} + 10ms, 10ms, probes, gaps);
  ASSERT_EQ(probes.size(), 1u);
  EXPECT_EQ(w.window.next_deadline(10ms), Instant{1} + 30ms) << "doubled";
  EXPECT_TRUE(w.window.on_ask(0, 0));
  EXPECT_FALSE(w.window.on_ask(0, 1));
  out.clear();
  w.window.fill(Instant{1} + 11ms, 0, out);
  ASSERT_EQ(out.size(), 1u) << "a repeat needs no fresh window";
  EXPECT_TRUE(memory[0].repeat);
}

TEST(SendWindow, AnAskWithinARoundTripOfTheSendingHasCrossedIt) {
  Window w(SendWindowConfig{.slots = 2});
  w.window.submit(77, 1, 0);
  EXPECT_FALSE(w.window.crosses(0, Instant{1}, 40ms)) << "not sent yet, and asked for";
  std::array<Outgoing, 4> memory;
  BoundedList<Outgoing> out(memory);
  w.window.fill(Instant{1}, 4, out);
  EXPECT_TRUE(w.window.crosses(0, Instant{1} + 39ms, 40ms));
  EXPECT_FALSE(w.window.crosses(0, Instant{1} + 40ms, 40ms));
  EXPECT_FALSE(w.window.crosses(1, Instant{1}, 40ms)) << "idle";
  EXPECT_FALSE(w.window.crosses(2, Instant{1}, 40ms)) << "no such slot";
  // Overdue by the worker's own judgement: the ask may be the answer to its probe.
  std::array<Want, 4> probe_memory, gap_memory;
  BoundedList<Want> probes(probe_memory), gaps(gap_memory);
  w.window.on_timeout(Instant{1} + 10ms, 5ms, probes, gaps);
  EXPECT_EQ(probes.size(), 1u);
  EXPECT_FALSE(w.window.crosses(0, Instant{1} + 11ms, 40ms));
}

TEST(RttEstimator, SilenceSaysNothingBeforeARoundTripIsOver) {
  RttEstimator rtt;
  EXPECT_EQ(rtt.overdue(), rtt.silence()) << "nothing is known yet";
  rtt.on_sample(40ms);
  EXPECT_EQ(rtt.overdue(), 50ms);
  rtt.on_sample(48ms);
  EXPECT_EQ(rtt.overdue(), 40ms + rtt.silence()) << "from the least one on";
}

TEST(RttEstimator, AWaitForASlowMemberIsNotBelievedToBeTheRoundTrip) {
  RttEstimator rtt;
  rtt.on_sample(30s);
  EXPECT_EQ(rtt.surely(), RttEstimator::Config{}.rto_max / 2);
  rtt.on_sample(100us);
  EXPECT_EQ(rtt.surely(), 100us);
}

TEST(SendWindow, ReportsASkippedResultNumberAfterTheReorderWindow) {
  Window w(SendWindowConfig{.slots = 4, .reorder_window = 1ms});
  w.window.submit(77, 100, 0);
  std::array<Outgoing, 8> memory;
  BoundedList<Outgoing> out(memory);
  w.window.fill(Instant{1}, 8, out);
  Delivery d;
  ASSERT_EQ(w.window.on_result(2, 0, 77, 6, Instant{2}, d), ResultVerdict::kAccepted);
  ASSERT_EQ(w.window.on_result(0, 0, 77, 4, Instant{3}, d), ResultVerdict::kAccepted);
  std::array<Want, 4> probe_memory, gap_memory;
  BoundedList<Want> probes(probe_memory), gaps(gap_memory);
  w.window.on_timeout(Instant{2} + 1ms, 1000ms, probes, gaps);
  EXPECT_TRUE(probes.empty());
  ASSERT_EQ(gaps.size(), 1u) << "4 came late, 5 is missing";
  EXPECT_EQ(gap_memory[0].phase_or_number, 5u);
  EXPECT_FALSE(d.probed) << "it came by itself";
  ASSERT_EQ(w.window.on_result(1, 0, 77, 5, Instant{2} + 2ms, d), ResultVerdict::kAccepted);
  EXPECT_TRUE(d.probed) << "it was asked for";
}

TEST(Protocol, PhasesGoOnAcrossTheirWrap) {
  const uint32_t first = 0xFFFFFFFEu;
  Pool p(SlotPoolConfig{.members = 1, .slots = 1, .first_phase = first});
  Window w(SendWindowConfig{.slots = 1, .first_phase = first});
  w.window.submit(77, 6, 0);
  for (uint32_t n = 0; n < 6; ++n) {
    std::array<Outgoing, 2> memory;
    BoundedList<Outgoing> out(memory);
    w.window.fill(Instant{1}, 1, out);
    ASSERT_EQ(out.size(), 1u);
    ASSERT_EQ(memory[0].phase, first + n);
    const Contribution c = make(0, 0, memory[0].phase, memory[0].chunk, 6);
    ASSERT_EQ(p.pool.on_contribution(c, Instant{1}), Verdict::kCompleted);
    ASSERT_EQ(p.pool.on_contribution(c, Instant{1}), Verdict::kAnswer);
    const StoredResult& r = p.pool.stored(0);
    Delivery d;
    ASSERT_EQ(w.window.on_result(0, r.phase, r.digest, r.number, Instant{2}, d),
              ResultVerdict::kAccepted);
  }
  EXPECT_TRUE(w.window.idle());
}

TEST(SendWindow, AbandonLeavesNothingToSend) {
  Window w(SendWindowConfig{.slots = 4});
  w.window.submit(77, 100, 0);
  std::array<Outgoing, 2> memory;
  BoundedList<Outgoing> out(memory);
  w.window.fill(Instant{1}, 8, out);
  w.window.abandon();
  EXPECT_FALSE(w.window.wants_to_send());
  EXPECT_TRUE(w.window.idle());
  EXPECT_EQ(w.window.next_deadline(1ms), Instant::never());
}

TEST(Protocol, ManyOperationsOfAllSizesShareFewSlots) {
  // Two members in lock step over a perfect link; operations of 1..9 chunks over 4 slots.
  constexpr uint16_t kSlots = 4;
  Pool p(SlotPoolConfig{.members = 2, .slots = kSlots, .operations = 16});
  Window a(SendWindowConfig{.slots = kSlots, .operations = 16});
  Window b(SendWindowConfig{.slots = kSlots, .operations = 16});
  Window* windows[2] = {&a, &b};
  std::map<std::pair<Ticket, uint32_t>, int> delivered[2];
  Prng prng(3);
  uint32_t submitted[2] = {0, 0};
  uint64_t chunks = 0;
  for (int step = 0; step < 20000; ++step) {
    const auto member = static_cast<uint16_t>(prng.below(2));
    SendWindow& w = windows[member]->window;
    if (submitted[member] < 500 && !w.full() && prng.chance(0.3)) {
      const uint32_t n = submitted[member]++;
      w.submit(1000 + n, 1 + n % 9, n * 3);
      if (member == 0) chunks += 1 + n % 9;
    }
    std::array<Outgoing, 4> memory;
    BoundedList<Outgoing> out(memory);
    w.fill(Instant{step + 1}, static_cast<uint32_t>(prng.below(3)), out);
    for (const Outgoing& o : out) {
      const uint32_t n = o.ticket;
      const Contribution c{o.slot, member, o.phase, 1000 + n, o.chunk, 1 + n % 9, false, 0};
      const Verdict verdict = p.pool.on_contribution(c, Instant{step + 1});
      ASSERT_TRUE(verdict == Verdict::kAccepted || verdict == Verdict::kCompleted)
          << static_cast<int>(verdict);
      if (verdict != Verdict::kCompleted) continue;
      const StoredResult& r = p.pool.stored(o.slot);
      for (int m = 0; m < 2; ++m) {
        Delivery d;
        ASSERT_EQ(
            windows[m]->window.on_result(o.slot, r.phase, r.digest, r.number, Instant{step + 1}, d),
            ResultVerdict::kAccepted);
        ++delivered[m][{d.ticket, d.chunk}];
      }
    }
  }
  for (int m = 0; m < 2; ++m) {
    EXPECT_EQ(submitted[m], 500u);
    EXPECT_TRUE(windows[m]->window.idle());
    EXPECT_EQ(delivered[m].size(), chunks);
    for (const auto& [key, times] : delivered[m]) EXPECT_EQ(times, 1);
  }
}

}  // namespace
}  // namespace sumcast::core
