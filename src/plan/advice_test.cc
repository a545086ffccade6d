#include "plan/advice.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace sumcast::plan {
namespace {

/// Links on which a ring's all-reduce of `bytes` among four takes `ring_s`.
Calibration links(double ring_s, double bytes) {
  Calibration c;
  c.alpha_s = c.startup_s = 0;
  c.up_s_per_byte = c.down_s_per_byte = ring_s / (1.5 * bytes);
  c.compute_jitter = c.network_jitter = 0;
  return c;
}

constexpr double kBytes = 1e8;

TEST(Predict, ThePipelineOverTheSynchronousServerComesNearItsBound) {
  // p = 4, ring = twice computing: server 2 * 16/6 c over ring's 2 c, so 1 + 5.33 against 2 * 2/3.
  const Calibration c = links(2.0, kBytes);
  const StepShape step = even_step(kBytes, 1.0);
  const Setting four{4, kBucketBytes};
  const double server =
      predict(c, step, four, {Schedule::kSync, Collective::kServer, WireFormat::kNative, 1}).step_s;
  EXPECT_NEAR(server, 1 + 16.0 / 3, 1e-6);
  const auto pipe = [&](WireFormat wire) {
    return predict(c, step, four, {Schedule::kPipe, Collective::kInNetwork, wire, 2}).step_s;
  };
  EXPECT_NEAR(server / pipe(WireFormat::kBF16), 6.33, 0.01);
  const double ring =
      predict(c, step, four, {Schedule::kSync, Collective::kRing, WireFormat::kNative, 1}).step_s;
  EXPECT_NEAR(ring / pipe(WireFormat::kNative), 2.25, 0.01);
  EXPECT_NEAR(ring / pipe(WireFormat::kBF16), 3.0, 0.01);
}

TEST(Predict, IntervalsHoldTheMiddleAndGrowWithJitter) {
  Calibration c = links(1.0, kBytes);
  const StepShape step = even_step(kBytes, 1.0);
  const Setting four{4, 1e6};
  double width_before = -1;
  for (const double jitter : {0.0, 0.02, 0.1}) {
    c.compute_jitter = c.network_jitter = jitter;
    double width = 0;
    for (const Mode& mode : modes_of({})) {
      const Prediction p = predict(c, step, four, mode);
      EXPECT_LE(p.low_s, p.step_s) << describe(mode);
      EXPECT_GE(p.high_s, p.step_s) << describe(mode);
      EXPECT_GE(p.idle_share, 0);
      EXPECT_LE(p.idle_share, 1);
      width += p.high_s - p.low_s;
    }
    EXPECT_GT(width, width_before);
    width_before = width;
  }
}

TEST(Predict, SynchronousStepsWaitForTheSlowest) {
  Calibration c = links(0.001, kBytes);
  c.compute_jitter = 0.1;
  const StepShape step = even_step(kBytes, 1.0);
  const Mode sync{Schedule::kSync, Collective::kInNetwork, WireFormat::kNative, 1};
  double before = 0;
  for (const uint32_t workers : {1u, 2u, 4u, 16u, 256u}) {
    const double now = predict(c, step, {workers, 1e6}, sync).step_s;
    EXPECT_GT(now, before);
    before = now;
  }
  EXPECT_NEAR(before, 1 + 0.1 * 2.8, 0.03);  // The mean of the largest of 256 normals: 2.8.
}

TEST(Predict, AMeasuredWaitForOthersTakesTheFormulasPlace) {
  Calibration c = links(0.5, kBytes);
  c.compute_jitter = 0.1;
  c.straggling_s = 0.25;
  const StepShape step = even_step(kBytes, 1.0);
  const Mode sync{Schedule::kSync, Collective::kRing, WireFormat::kNative, 1};
  for (const uint32_t workers : {2u, 16u}) {
    const Cost sum = cost_of(c, Collective::kRing, WireFormat::kNative, workers, kBytes);
    EXPECT_NEAR(predict(c, step, {workers, kBytes}, sync).step_s, 1 + 0.25 + sum.latency_s, 1e-9);
  }
}

/// Links whose in-network sums of kBytes were measured beside computing, and steal from it.
Calibration measured_beside(double sum_s, double stolen_s) {
  Calibration c = links(sum_s, kBytes);
  MeasuredCost line;
  line.per_byte_s = sum_s / kBytes;
  line.stolen_per_byte_s = stolen_s / kBytes;
  c.measured[{Collective::kInNetwork, WireFormat::kNative}] = line;
  return c;
}

TEST(Predict, PipelinesThatVaryWaitTheLessTheWiderTheyAre) {
  Calibration c = measured_beside(1.0, 0.1);
  c.straggling_s = 5;  // Of synchronous steps alone.
  const StepShape step = even_step(kBytes, 1.0);
  const auto at = [&](uint32_t width) {
    const Mode pipe{Schedule::kPipe, Collective::kInNetwork, WireFormat::kNative, width};
    return predict(c, step, {4, kBytes}, pipe).step_s;
  };
  c.compute_jitter = c.network_jitter = 0;
  EXPECT_NEAR(at(2), 1.1, 1e-9);
  c.compute_jitter = 0.2;
  EXPECT_GT(at(2), 1.15);
  EXPECT_LT(at(3), at(2));
  for (uint32_t width = 4; width < 9; ++width) EXPECT_LE(at(width), at(width - 1) + 1e-9);
  EXPECT_NEAR(at(9), 1.1, 1e-3);
}

TEST(Predict, WhatCommunicationStealsFromComputingIsCounted) {
  Calibration c = links(0.1, kBytes);
  c.stolen_s_per_byte = 0.2 / kBytes;
  const StepShape step = even_step(kBytes, 1.0);
  const Mode pipe{Schedule::kPipe, Collective::kInNetwork, WireFormat::kNative, 2};
  EXPECT_NEAR(predict(c, step, {4, 1e6}, pipe).step_s, 1.2, 1e-9);
  const Mode sync{Schedule::kSync, Collective::kInNetwork, WireFormat::kNative, 1};
  EXPECT_NEAR(predict(c, step, {4, 1e6}, sync).step_s, 1 + 0.1 / 1.5, 1e-9);
}

Mode advised(const Calibration& c, double compute_s, bool allow_stale = true) {
  const Advice advice =
      advise(c, even_step(kBytes, compute_s), {4, 1e6}, modes_of({}), allow_stale);
  EXPECT_FALSE(advice.reason.empty());
  EXPECT_EQ(advice.reason.find('\n'), std::string::npos);
  return advice.predictions[advice.best].mode;
}

TEST(Advice, BoundByComputingTheSimplestWins) {
  const Mode mode = advised(links(0.01, kBytes), 1.0);
  EXPECT_EQ(mode.schedule, Schedule::kSync);
  EXPECT_EQ(mode.wire, WireFormat::kNative);
  EXPECT_EQ(mode.collective, Collective::kDirect);  // Nothing to install.
}

TEST(Advice, BoundByTheNetworkTheFewestBytesWin) {
  const Mode mode = advised(links(20.0, kBytes), 1.0);
  EXPECT_EQ(mode.collective, Collective::kInNetwork);
  EXPECT_EQ(mode.wire, WireFormat::kInt8);
}

TEST(Advice, LongPathsWantMoreThanTwo) {
  Calibration c = links(0.3, kBytes);
  c.alpha_s = 1.4;  // Latency about 3 steps, the link nearly idle.
  const Mode mode = advised(c, 1.0);
  EXPECT_EQ(mode.schedule, Schedule::kPipe);
  EXPECT_EQ(mode.width, 4u);
  EXPECT_EQ(mode.collective, Collective::kDirect);
}

TEST(Advice, FreshGradientsOnlyIfThatIsAsked) {
  const Calibration c = links(1.5, kBytes);
  EXPECT_EQ(advised(c, 1.0, false).width, 1u);
  EXPECT_NE(advised(c, 1.0, false).schedule, Schedule::kAsync);
}

TEST(Advice, EveryModeIsOfferedOnceAndExists) {
  const std::vector<Mode> modes = modes_of({});
  for (size_t i = 0; i < modes.size(); ++i) {
    EXPECT_TRUE(carries(modes[i].collective, modes[i].wire));
    EXPECT_EQ(std::count(modes.begin(), modes.end(), modes[i]), 1) << describe(modes[i]);
  }
  EXPECT_EQ(describe({Schedule::kPipe, Collective::kInNetwork, WireFormat::kBF16, 2}),
            "pipe K=2, in-network, bf16");
}

}  // namespace
}  // namespace sumcast::plan
