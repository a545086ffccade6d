#include "runtime/clock.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sumcast::runtime {
namespace {

TEST(Clock, IsSetAndNeverGoesBack) {
  Instant before = monotonic_now();
  EXPECT_TRUE(before.is_set());
  for (int i = 0; i < 1000; ++i) {
    const Instant now = monotonic_now();
    ASSERT_GE(now, before);
    before = now;
  }
}

TEST(Clock, WallTimeIsIso8601InUtc) {
  EXPECT_THAT(
      wall_time_text(),
      ::testing::MatchesRegex("20[0-9][0-9]-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-5][0-9]:[0-6][0-9]"
                              "\\.[0-9][0-9][0-9]Z"));
}

}  // namespace
}  // namespace sumcast::runtime
