#include "plan/timing.h"

#include <gtest/gtest.h>

#include <numeric>

namespace sumcast::plan {
namespace {

/// A link that takes `whole_s` for `bytes` in all, with nothing per message.
LinkFn proportional(double whole_s, double bytes) {
  return [=](double part) {
    const double time = whole_s * part / bytes;
    return LinkTime{time, time};
  };
}

TEST(Timing, PipelinedStepsTakeTheSlowestOfThree) {
  EXPECT_EQ(pipelined_step_s(1, {0.5, 0.5}, 1), 1.5);  // K = 1: one after the other.
  EXPECT_EQ(pipelined_step_s(1, {0.5, 0.5}, 2), 1);    // Computing.
  EXPECT_EQ(pipelined_step_s(1, {3, 3}, 2), 3);        // The link.
  EXPECT_EQ(pipelined_step_s(1, {5, 0.5}, 2), 3);      // Latency, over two steps ...
  EXPECT_EQ(pipelined_step_s(1, {5, 0.5}, 6), 1);      // ... or over six.
}

TEST(Timing, SumsAndComputingThatShareCoresSlowEachOther) {
  // 0.4 s of sum take 0.8 s beside computing, of which 0.2 s are lost to it.
  EXPECT_NEAR(pipelined_step_s(1, {0.4, 0.4, 2}, 2, 0.2), 1.2, 1e-12);
  // Computing ends first: 0.3 s of it take 0.4 s beside the sum, half of which is done by then.
  EXPECT_NEAR(pipelined_step_s(0.3, {0.4, 0.4, 2}, 2, 0.2), 0.4 + 0.2, 1e-12);
  // Nothing runs beside anything with K = 1.
  EXPECT_NEAR(pipelined_step_s(0.3, {0.4, 0.4, 2}, 1, 0.2), 0.7, 1e-12);
  // Without drag or theft, the plain formula.
  EXPECT_NEAR(pipelined_step_s(0.3, {0.4, 0.4, 1}, 2, 0), 0.4, 1e-12);
}

TEST(Timing, ASumIsDraggedOnlyWhileBackwardRuns) {
  StepShape step;
  step.layers = {{100, 0, 0.5}, {100, 0, 0.5}};
  const LinkFn link = [](double) { return LinkTime{0.4, 0.4, 2}; };
  // The first bucket is ready at 0.5 and runs dragged until 1: 0.25 done, 0.15 left; then the
  // other.
  EXPECT_NEAR(overlap_step(step, link, false, 100).step_s, 1 + 0.15 + 0.4, 1e-12);
}

TEST(Timing, TheSmallestHidingWidth) {
  EXPECT_EQ(hiding_width(1, 0.9), 2u);
  EXPECT_EQ(hiding_width(1, 1), 2u);
  EXPECT_EQ(hiding_width(1, 5), 6u);
  EXPECT_EQ(hiding_width(1, 0), 1u);
  for (const double latency : {0.3, 1.0, 2.5, 5.0}) {
    const uint32_t width = hiding_width(1, latency);
    EXPECT_EQ(pipelined_step_s(1, {latency, 0.1}, width), 1);
    EXPECT_GT(pipelined_step_s(1, {latency, 0.1}, width - 1), 1);
  }
}

TEST(Timing, BucketsCloseWhenTheyAreFullAndGoFromTheLastLayerDown) {
  StepShape step;
  for (const double bytes : {1.0, 5.0, 2.0, 2.0, 9.0}) step.layers.push_back({bytes, 1, 2});
  const std::vector<Bucket> buckets = buckets_of(step, 4);
  ASSERT_EQ(buckets.size(), 4u);
  EXPECT_EQ(buckets[0].first, 4u);
  EXPECT_EQ(buckets[1].first, 2u);
  EXPECT_EQ(buckets[1].last, 3u);
  EXPECT_EQ(buckets[3].first, 0u);  // The rest, though it is not full.
  EXPECT_EQ(std::accumulate(buckets.begin(), buckets.end(), 0.0,
                            [](double sum, const Bucket& b) { return sum + b.bytes; }),
            step.bytes());
}

TEST(Timing, DelayIsWorthAtMostTwoOverBlockingAndAThirdOverBuckets) {
  // Communication equal to computing: the reference's bounds, reached with many small buckets.
  const StepShape step = even_step(1e6, 1.0, 200);
  const Overlapped ddp = overlap_step(step, proportional(1.0, 1e6), false, 1);
  const double pipe = pipelined_step_s(step.compute_s(), {1, 1}, 2);
  EXPECT_NEAR((step.compute_s() + 1) / pipe, 2.0, 1e-9);
  EXPECT_NEAR(ddp.step_s / pipe, 4.0 / 3, 0.01);
  const Overlapped ideal = overlap_step(step, proportional(1.0, 1e6), true, 1);
  EXPECT_LT(ideal.step_s, ddp.step_s);
  EXPECT_GE(ideal.step_s, pipe);
}

TEST(Timing, WhatComputingDragsComesLaterOverALongPathToo) {
  // A round trip of 40 ms, of which 10 are the link's; computing 20 ms.
  EXPECT_NEAR(pipelined_step_s(0.02, {0.05, 0.01}, 2), (0.02 + 0.05) / 2, 1e-12);
  EXPECT_NEAR(pipelined_step_s(0.02, {0.05, 0.01, 1.5}, 2), (0.02 + 0.055) / 2, 1e-12);
  EXPECT_NEAR(pipelined_step_s(0.02, {0.05, 0.01, 1.5}, 4), 0.02, 1e-12);
  EXPECT_NEAR(pipelined_step_s(0.02, {0.05, 0.01, 1, 0.004}, 2), (0.02 + 0.054) / 2, 1e-12);
}

TEST(Timing, OneBucketOverlapsNothing) {
  const StepShape step = even_step(1e6, 1.0, 10);
  const Overlapped one = overlap_step(step, proportional(0.4, 1e6), false, 1e9);
  EXPECT_NEAR(one.step_s, 1.4, 1e-9);
  EXPECT_NEAR(one.hidden_share, 0, 1e-9);
}

TEST(Timing, PrioritySumsTheLayersThatForwardNeedsFirst) {
  // The last layer is huge and ready first; the small ones below it become ready meanwhile.
  StepShape step;
  for (const double bytes : {10.0, 10.0, 10.0, 1000.0}) step.layers.push_back({bytes, 1, 0.1});
  const auto link = proportional(4.0, 1030);
  const Overlapped fifo = overlap_step(step, link, false, 1);
  const Overlapped first = overlap_step(step, link, true, 1);
  EXPECT_EQ(fifo.order, (std::vector<size_t>{0, 1, 2, 3}));
  EXPECT_EQ(first.order, (std::vector<size_t>{0, 3, 2, 1}));  // Bucket 3 holds layer 0.
  EXPECT_LE(first.step_s, fifo.step_s);
}

TEST(Timing, FastNetworksLeaveComputingOnly) {
  const StepShape step = even_step(1e6, 0.3, 12, 0.25);
  EXPECT_NEAR(step.forward_s(), 0.075, 1e-12);
  for (const bool priority : {false, true}) {
    const Overlapped result = overlap_step(step, proportional(1e-9, 1e6), priority, 1e5);
    EXPECT_NEAR(result.step_s, 0.3, 1e-6);
  }
}

}  // namespace
}  // namespace sumcast::plan
