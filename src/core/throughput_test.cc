#include "core/throughput.h"

#include <gtest/gtest.h>

namespace sumcast::core {
namespace {

using namespace std::chrono_literals;

/// `bytes` every `each`, for `total`.
Instant pass(Throughput& rate, Instant now, uint64_t bytes, Duration each, Duration total) {
  for (const Instant end = now + total; now < end; now = now + each) rate.on_batch(now, bytes);
  return now;
}

TEST(Throughput, SaysNothingAtFirst) {
  Throughput rate;
  EXPECT_EQ(rate.ns_per_byte(), 0);
  const Instant now = pass(rate, Instant{}, 1000, 1ms, 35ms);
  EXPECT_EQ(rate.ns_per_byte(), 0);
  pass(rate, now, 1000, 1ms, 35ms);
  EXPECT_NEAR(rate.ns_per_byte(), 1000, 1);
}

TEST(Throughput, TheHighestRateCounts) {
  Throughput rate;
  Instant now = pass(rate, Instant{}, 1000, 100us, 60ms);
  EXPECT_NEAR(rate.ns_per_byte(), 100, 2);
  now = pass(rate, now, 1000, 50us, 30ms);
  EXPECT_NEAR(rate.ns_per_byte(), 50, 2);
  pass(rate, now, 10, 100us, 100ms);
  EXPECT_NEAR(rate.ns_per_byte(), 50, 2) << "who moves less is no slower";
}

TEST(Throughput, PausesAreNotCounted) {
  Throughput rate;
  Instant now{};
  for (int i = 0; i < 20; ++i) {
    rate.on_pause();
    now = pass(rate, now, 1000, 100us, 6ms) + 50ms;
  }
  EXPECT_EQ(rate.ns_per_byte(), 0);
}

TEST(Throughput, OnSlowLinksASpanHasSomeBatches) {
  Throughput rate;
  pass(rate, Instant{}, 1000, 20ms, 400ms);
  EXPECT_NEAR(rate.ns_per_byte(), 20000, 1);
}

}  // namespace
}  // namespace sumcast::core
