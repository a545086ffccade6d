#include "lab/cpu_clock.h"

#include <gtest/gtest.h>

namespace sumcast::lab {
namespace {

TEST(CpuClock, AddsTheBusyColumnsAndLeavesOutIdleWaitingAndStolenTime) {
  //                                      user nice sys idle iowait irq softirq steal guest
  const auto busy =
      busy_time_from_stat("cpu  1 20 300 5000000 60000 4000 50000 7000 8000 0\n", 100);
  ASSERT_TRUE(busy);
  EXPECT_EQ(*busy, std::chrono::milliseconds((1 + 20 + 300 + 4000 + 50000) * 10));
}

TEST(CpuClock, RefusesTextThatIsSomethingElse) {
  EXPECT_FALSE(busy_time_from_stat("cpu0 1 2 3 4 5 6 7", 100));
  EXPECT_FALSE(busy_time_from_stat("cpu 1 2 3", 100));
  EXPECT_FALSE(busy_time_from_stat("", 100));
}

TEST(CpuClock, NeverRunsBackwards) {
  const CpuClock clock;
  EXPECT_GE(clock.busy().count(), 0);
  EXPECT_GT(machine_busy_time().value().count(), 0);
}

}  // namespace
}  // namespace sumcast::lab
