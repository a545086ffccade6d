#include "control/slot_ranges.h"

#include <gtest/gtest.h>

#include "base/prng.h"

namespace sumcast::control {
namespace {

TEST(SlotRanges, GiveTheFirstGroupHalfAndLaterOnesAnEighthOfTheRest) {
  SlotRanges slots(1024);
  EXPECT_EQ(slots.take(10'000), (SlotRange{0, 512}));
  EXPECT_EQ(slots.take(10'000), (SlotRange{512, 64}));
  EXPECT_EQ(slots.take(3), (SlotRange{576, 3}));
}

TEST(SlotRanges, GiveAtLeastOneSlotUntilThereIsNone) {
  SlotRanges slots(3);
  EXPECT_EQ(slots.take(0), (SlotRange{0, 1}));
  EXPECT_EQ(slots.take(9), (SlotRange{1, 1}));
  EXPECT_EQ(slots.take(9), (SlotRange{2, 1}));
  EXPECT_EQ(slots.take(1), std::nullopt);
  slots.give_back({1, 1});
  EXPECT_EQ(slots.take(1), (SlotRange{1, 1}));
}

TEST(SlotRanges, FillTheFirstGapThatIsLargeEnoughElseTheLongest) {
  SlotRanges slots(64);
  const auto a = slots.take(4);
  const auto b = slots.take(7);
  const auto c = slots.take(6);
  ASSERT_TRUE(a && b && c);
  slots.give_back(*a);
  EXPECT_EQ(slots.take(5), (SlotRange{17, 5}));
  EXPECT_EQ(slots.take(4), (SlotRange{0, 4}));
}

TEST(SlotRanges, NeverOverlapAndComeBackWhole) {
  Prng prng(3);
  SlotRanges slots(200);
  std::vector<SlotRange> held;
  for (int i = 0; i < 20'000; ++i) {
    if (!held.empty() && prng.chance(0.5)) {
      const size_t which = prng.below(held.size());
      slots.give_back(held[which]);
      held.erase(held.begin() + static_cast<ptrdiff_t>(which));
    } else if (const auto range = slots.take(static_cast<uint32_t>(prng.below(80)))) {
      ASSERT_GE(range->count, 1u);
      ASSERT_LE(range->base + range->count, slots.size());
      for (const SlotRange& other : held) {
        ASSERT_TRUE(range->base >= other.base + other.count ||
                    other.base >= range->base + range->count);
      }
      held.push_back(*range);
    }
  }
  for (const SlotRange& range : held) slots.give_back(range);
  EXPECT_EQ(slots.in_use(), 0u);
  EXPECT_EQ(slots.take(200), (SlotRange{0, 100}));
}

}  // namespace
}  // namespace sumcast::control
