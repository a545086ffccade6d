#include <gtest/gtest.h>

#include "sparse/return_pace.h"

namespace sumcast::sparse {
namespace {

constexpr Instant kStart{1};

TEST(ReturnPace, LooksLessOftenTheLongerNobodyIsThere) {
  ReturnPace pace(1s);
  pace.on_away(kStart);
  EXPECT_EQ(pace.next_look(), kStart + 1s);
  Instant now = pace.next_look();
  Duration last{0};
  for (int i = 0; i < 10; ++i) {
    pace.on_silence(now);
    const Duration interval = pace.next_look() - now;
    EXPECT_GE(interval, last);
    EXPECT_LE(interval, kLookIntervalMax);
    last = interval;
    now = pace.next_look();
  }
  EXPECT_EQ(last, kLookIntervalMax);
}

TEST(ReturnPace, WhoIsLostAgainSoonIsTrustedHalfAsSoon) {
  ReturnPace pace(1s);
  Instant now = kStart;
  Duration expected = 1s;
  for (int i = 0; i < 12; ++i) {
    pace.on_away(now);
    EXPECT_EQ(pace.next_look() - now, expected) << i;
    now = pace.next_look();
    pace.on_return(now);
    now = now + 2s;  // It stays for so long, and dies.
    expected = std::min<Duration>(2 * expected, kHoldOffMax);
  }
  EXPECT_EQ(pace.hold_off(), kHoldOffMax);
}

TEST(ReturnPace, ASecondBestPlaceThatIsLostAgainSoonIsTrustedHalfAsSoon) {
  ReturnPace pace(1s);
  pace.on_away(kStart);
  pace.on_better(kStart + 1s);
  EXPECT_EQ(pace.next_look(), kStart + 2s) << "a better one may come back";
  pace.on_away(kStart + 3s);
  EXPECT_EQ(pace.hold_off(), 2s);
}

TEST(ReturnPace, WhoStaysLongIsTrustedAgain) {
  ReturnPace pace(1s);
  pace.on_away(kStart);
  pace.on_return(kStart + 1s);
  pace.on_away(kStart + 2s);
  EXPECT_EQ(pace.hold_off(), 2s);
  const Instant back = kStart + 4s;
  pace.on_return(back);
  const Instant lost = back + kSettledHoldOffs * 2s;
  pace.on_away(lost);
  EXPECT_EQ(pace.next_look(), lost + 1s);
}

TEST(ReturnPace, ARefusalCountsAsALoss) {
  ReturnPace pace(1s);
  pace.on_away(kStart);
  pace.on_refusal(kStart + 1s);
  EXPECT_EQ(pace.next_look(), kStart + 3s);
  // Looks in vain leave the hold-off as it is.
  pace.on_silence(kStart + 3s);
  EXPECT_EQ(pace.hold_off(), 2s);
}

}  // namespace
}  // namespace sumcast::sparse
