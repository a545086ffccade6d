// Faults of the core that the simulator, the small worlds or a reviewer found, each as the
// shortest story that shows it.
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "core/send_window.h"
#include "core/slot_pool.h"

namespace sumcast::sim {
namespace {

using namespace sumcast::core;

struct Pool {
  explicit Pool(SlotPoolConfig config)
      : memory(SlotPool::bytes_needed(config)), pool(config, memory) {}
  std::vector<std::byte> memory;
  SlotPool pool;
};

struct Window {
  explicit Window(SendWindowConfig config)
      : memory(SendWindow::bytes_needed(config)), window(config, memory) {}
  /// What fill() sends at `now`.
  std::vector<Outgoing> fill(uint32_t limit, Instant now = Instant{1}) {
    std::array<Outgoing, 16> room;
    BoundedList<Outgoing> out(room);
    window.fill(now, limit, out);
    return {out.begin(), out.end()};
  }
  std::vector<std::byte> memory;
  SendWindow window;
};

TEST(SendWindow, SendsWhatIsAskedForBeyondItsLimitSoThatMembersCannotWaitInACircle) {
  // Both members may have one contribution in flight. They submitted the third operation at
  // different times, so that one sends slot 1 first and the other slot 0.
  Window a(SendWindowConfig{.slots = 2}), b(SendWindowConfig{.slots = 2});
  for (Window* w : {&a, &b}) {
    w->window.submit(101, 1, 0);
    w->window.submit(102, 1, 0);
  }
  a.window.submit(103, 1, 1);
  ASSERT_EQ(a.fill(1).size(), 1u);
  ASSERT_EQ(b.fill(1).size(), 1u);
  Delivery d;
  ASSERT_EQ(a.window.on_result(0, 0, 101, 1, Instant{2}, d), ResultVerdict::kAccepted);
  ASSERT_EQ(b.window.on_result(0, 0, 101, 1, Instant{2}, d), ResultVerdict::kAccepted);
  ASSERT_EQ(a.fill(1).at(0).slot, 1);
  ASSERT_EQ(b.fill(1).at(0).slot, 0);
  b.window.submit(103, 1, 1);
  ASSERT_TRUE(b.fill(0).empty()) << "its limit is used up";
  // The probes of both make the shard ask the other one.
  ASSERT_TRUE(b.window.on_ask(1, 0)) << "ready, and somebody waits for it";
  ASSERT_TRUE(a.window.on_ask(0, 1));
  const std::vector<Outgoing> from_a = a.fill(0), from_b = b.fill(0);
  ASSERT_EQ(from_a.size(), 1u);
  ASSERT_EQ(from_b.size(), 1u);
  EXPECT_EQ(from_a[0].slot, 0);
  EXPECT_EQ(from_b[0].slot, 1);
  EXPECT_FALSE(from_b[0].repeat);
  EXPECT_EQ(b.window.in_flight(), 2u);
  EXPECT_EQ(b.window.ready(), 0u);
  EXPECT_TRUE(b.fill(8).empty()) << "it must not go twice";
}

TEST(SendWindow, AnAskThatAResultOvertookSaysNothingAboutTheNextPhase) {
  Window w(SendWindowConfig{.slots = 1});
  w.window.submit(101, 2, 0);
  ASSERT_EQ(w.fill(1).size(), 1u);
  ASSERT_TRUE(w.window.on_ask(0, 0));
  Delivery d;
  ASSERT_EQ(w.window.on_result(0, 0, 101, 1, Instant{2}, d), ResultVerdict::kAccepted);
  EXPECT_TRUE(w.fill(0).empty());
}

TEST(SendWindow, PlacesFixedChunksRightForEveryFirstSlot) {
  // 3 does not divide 2^32: first_slot + i must not wrap.
  Window w(SendWindowConfig{.slots = 3});
  w.window.submit(101, 3, 0xFFFFFFFF);  // Congruent to 0.
  const std::vector<Outgoing> sent = w.fill(8);
  ASSERT_EQ(sent.size(), 3u);
  for (uint16_t i = 0; i < 3; ++i) {
    EXPECT_EQ(sent[i].slot, i);
    EXPECT_EQ(sent[i].chunk, i);
  }
}

TEST(SendWindow, KeepsProbingOftenEnoughToNoticeThatAPathIsBack) {
  Window w(SendWindowConfig{.slots = 1});
  w.window.submit(101, 1, 0);
  ASSERT_EQ(w.fill(1).size(), 1u);
  std::array<Want, 4> room;
  Instant now{1};
  for (int i = 0; i < 20; ++i) {
    const Instant due = w.window.next_deadline(50ms);
    EXPECT_LE(due - now, 250ms) << "probe " << i;
    now = due;
    BoundedList<Want> probes(room), gaps(std::span<Want>{});
    w.window.on_timeout(now, 50ms, probes, gaps);
    ASSERT_EQ(probes.size(), 1u);
  }
}

TEST(SlotPool, DoesNotHoldAnAskOfThePhaseBeforeAgainstANewPhase) {
  Pool p(SlotPoolConfig{.members = 2, .slots = 1, .ask_interval = 10ms});
  std::array<Ask, 4> room;
  BoundedList<Ask> asks(room);
  const Instant t{1};
  const auto contribute = [&](uint16_t member, uint32_t phase) {
    return p.pool.on_contribution(Contribution{0, member, phase, 101, phase, 9, false, 0}, t);
  };
  ASSERT_EQ(contribute(0, 0), Verdict::kAccepted);
  ASSERT_EQ(p.pool.on_probe(0, 0, 0, t, asks), ProbeVerdict::kWaiting);
  ASSERT_EQ(asks.size(), 1u);
  ASSERT_EQ(contribute(1, 0), Verdict::kCompleted);
  ASSERT_EQ(contribute(0, 1), Verdict::kAccepted);
  asks.clear();
  ASSERT_EQ(p.pool.on_probe(0, 0, 1, t + 5ms, asks), ProbeVerdict::kWaiting);
  EXPECT_EQ(asks.size(), 1u) << "nobody was asked for this phase yet";
}

TEST(SlotPool, AsksAtMostOncePerIntervalEvenIfTheListIsTooSmall) {
  // Six are missing, there is room for four: the rest waits for the next interval, as slot_pool.cc
  // promises, instead of being due again a nanosecond later for as long as a member is slow.
  Pool p(SlotPoolConfig{.members = 7, .slots = 2, .reorder_window = 1ms, .ask_interval = 10ms});
  std::array<Ask, 4> room;
  BoundedList<Ask> asks(room);
  const Instant t{1};
  ASSERT_EQ(p.pool.on_contribution(Contribution{0, 0, 0, 101, 0, 9, false, 0}, t),
            Verdict::kAccepted);
  for (uint16_t m = 0; m < 7; ++m) {
    ASSERT_NE(p.pool.on_contribution(Contribution{1, m, 0, 101, 1, 9, false, 0}, t),
              Verdict::kMismatch);
  }
  p.pool.on_timeout(t + 1ms, asks);
  ASSERT_EQ(asks.size(), 4u);
  EXPECT_EQ(p.pool.next_deadline(), t + 11ms);
  asks.clear();
  p.pool.on_timeout(t + 2ms, asks);
  EXPECT_TRUE(asks.empty());
}

TEST(SlotPool, SurvivesMembersThatFillMoreSlotsThanTheOperationHasChunks) {
  // A job whose members do not keep to the protocol must not stop the daemon for all others.
  Pool p(SlotPoolConfig{.members = 2, .slots = 2});
  const auto contribute = [&](uint16_t member, uint16_t slot) {
    return p.pool.on_contribution(Contribution{slot, member, 0, 101, 0, 1, false, 0}, Instant{1});
  };
  ASSERT_EQ(contribute(0, 0), Verdict::kAccepted);
  ASSERT_EQ(contribute(0, 1), Verdict::kAccepted);
  ASSERT_EQ(contribute(1, 0), Verdict::kCompleted);
  ASSERT_EQ(contribute(1, 1), Verdict::kCompleted);
  EXPECT_EQ(p.pool.stored(1).number, 1u) << "no chunk is left";
}

}  // namespace
}  // namespace sumcast::sim
