#include "collective/datagram.h"

#include <gtest/gtest.h>

namespace sumcast::collective {
namespace {

template <typename Run>
uint32_t admitted(Run& run, std::initializer_list<uint32_t> lengths) {
  for (const uint32_t bytes : lengths) {
    if (!run.admits(bytes)) break;
  }
  return run.count();
}

TEST(PaddedRun, EndsWherePaddingWouldAddMoreThanHalf) {
  PaddedRun run;
  EXPECT_EQ(admitted(run, {1000, 700, 1049, 1051}), 3u);
  EXPECT_EQ(run.bytes(), 1049u);
  PaddedRun small;
  EXPECT_EQ(admitted(small, {50, 480, 481}), 2u) << "the smallest are padded to anything near";
}

TEST(SortedRun, OfBytesThatCostNothingTakesAllThatOneCallTakes) {
  SortedRun run(0);
  EXPECT_EQ(admitted(run, {60, 500, 900}), 3u);
  EXPECT_EQ(run.bytes(), 900u);
  SortedRun full(0);
  for (uint32_t i = 0; i < net::segments_max(900); ++i) EXPECT_TRUE(full.admits(900));
  EXPECT_FALSE(full.admits(900));
}

TEST(SortedRun, EndsWherePaddingCostsMoreThanAnotherRun) {
  SortedRun run(30);  // 200 bytes are 6 us.
  EXPECT_EQ(admitted(run, {100, 100, 200, 266, 335}), 4u);
  EXPECT_EQ(run.bytes(), 266u);
}

TEST(SortedStretch, IsAsLongAsTheReorderWindow) {
  SortedStretch slow(100);  // 1,000 bytes.
  EXPECT_EQ(admitted(slow, {600, 600, 600}), 2u);
  SortedStretch fast(0);
  for (uint32_t i = 0; i < net::kSegmentsMax; ++i) EXPECT_TRUE(fast.admits(1000));
  EXPECT_FALSE(fast.admits(1000));
}

}  // namespace
}  // namespace sumcast::collective
