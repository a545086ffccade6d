#include "plan/cost.h"

#include <gtest/gtest.h>

#include "plan/fit.h"

namespace sumcast::plan {
namespace {

/// Links of 10 Gbit/s and nothing else that takes time.
Calibration ten_gigabit() {
  Calibration c;
  c.alpha_s = c.startup_s = 0;
  c.up_s_per_byte = c.down_s_per_byte = 8 / 10e9;
  return c;
}

double latency(const Calibration& c, Collective collective, uint32_t workers, double bytes,
               WireFormat wire = WireFormat::kNative) {
  return cost_of(c, collective, wire, workers, bytes).latency_s;
}

TEST(Cost, KnownModelsOverTenGigabitTakeWhatTheFormulasSay) {
  struct Known {
    double megabytes, ring_ms, server_ms, in_network_ms;
  };
  // Four workers. The server's column is half of what one direction at a time would take.
  for (const Known& known : {Known{244, 293, 781, 195}, Known{553, 664, 1770, 443},
                             Known{46.8, 56, 150, 37.4}, Known{102.4, 123, 328, 82}}) {
    const double bytes = known.megabytes * 1e6;
    const Calibration c = ten_gigabit();
    EXPECT_NEAR(latency(c, Collective::kRing, 4, bytes) * 1e3, known.ring_ms, 1);
    EXPECT_NEAR(latency(c, Collective::kServer, 4, bytes) * 1e3, known.server_ms, 2);
    EXPECT_NEAR(latency(c, Collective::kInNetwork, 4, bytes) * 1e3, known.in_network_ms, 1);
    EXPECT_NEAR(latency(c, Collective::kDirect, 4, bytes), latency(c, Collective::kRing, 4, bytes),
                1e-9);
  }
}

TEST(Cost, MessagesCountByAlgorithm) {
  Calibration c;
  c.alpha_s = 1;
  c.startup_s = 0;
  c.up_s_per_byte = c.down_s_per_byte = 1e-12;
  EXPECT_NEAR(latency(c, Collective::kRing, 8, 0), 14, 1e-9);
  EXPECT_NEAR(latency(c, Collective::kHalvingDoubling, 8, 0), 6, 1e-9);
  EXPECT_NEAR(latency(c, Collective::kInNetwork, 8, 0), 2, 1e-9);
  EXPECT_NEAR(latency(c, Collective::kDirect, 8, 0), 2, 1e-9);
}

TEST(Cost, OnlyStreamingAlgorithmsLeaveTheLinkToOthersWhileTheyWait) {
  Calibration c = ten_gigabit();
  c.alpha_s = 0.01;
  const Cost streamed = cost_of(c, Collective::kInNetwork, WireFormat::kNative, 4, 1e6);
  EXPECT_NEAR(streamed.latency_s - streamed.occupancy_s, 0.02, 1e-9);
  const Cost ring = cost_of(c, Collective::kRing, WireFormat::kNative, 4, 1e6);
  EXPECT_EQ(ring.latency_s, ring.occupancy_s);
}

TEST(Cost, TheSlowerDirectionAndTheAggregatorsPortBound) {
  Calibration c = ten_gigabit();
  c.down_s_per_byte *= 3;
  EXPECT_NEAR(latency(c, Collective::kInNetwork, 4, 1e6), 3 * 8e-4, 1e-9);
  c = ten_gigabit();
  c.aggregator_bytes_per_s = 10e9 / 8;  // A worker's own link: p times the bytes pass it.
  EXPECT_NEAR(latency(c, Collective::kInNetwork, 4, 1e6), 4 * 8e-4, 1e-9);
}

TEST(Cost, WireTypesShortenWhatTravels) {
  const Calibration c = ten_gigabit();
  EXPECT_NEAR(latency(c, Collective::kInNetwork, 4, 1e6, WireFormat::kBF16), 4e-4, 1e-9);
  EXPECT_NEAR(latency(c, Collective::kInNetwork, 4, 1e6, WireFormat::kInt8), 2.03e-4, 1e-6);
  EXPECT_FALSE(carries(Collective::kRing, WireFormat::kBF16));
  EXPECT_TRUE(carries(Collective::kServer, WireFormat::kBF16));
}

TEST(Cost, OneWorkerHasNothingToSend) {
  EXPECT_EQ(latency(ten_gigabit(), Collective::kRing, 1, 1e9), 0);
}

TEST(Cost, MeasuredLinesTakeTheFormulasPlace) {
  Calibration c = ten_gigabit();
  c.measured[{Collective::kRing, WireFormat::kNative}] = {0.5, 2e-9, 1e-9};
  const Cost cost = cost_of(c, Collective::kRing, WireFormat::kNative, 4, 1e9);
  EXPECT_NEAR(cost.latency_s, 2.5, 1e-9);
  EXPECT_NEAR(cost.stolen_s, 1, 1e-9);
}

TEST(Cost, ALinkIsBusyAsLongAsWasMeasuredButNeverBeyondTheResult) {
  Calibration c = ten_gigabit();
  MeasuredCost& line = c.measured[{Collective::kInNetwork, WireFormat::kNative}];
  line = {0.04, 2e-8, 0, 1.5, 5e-8};
  const auto cost = [&](double bytes) {
    return cost_of(c, Collective::kInNetwork, WireFormat::kNative, 4, bytes);
  };
  EXPECT_NEAR(cost(1e6).latency_s, 0.06, 1e-12);
  EXPECT_NEAR(cost(1e6).occupancy_s, 0.05, 1e-12);
  EXPECT_NEAR(cost(1e7).occupancy_s, cost(1e7).latency_s, 1e-12);
  line.busy_per_byte_s = 0;
  EXPECT_NEAR(cost(1e6).occupancy_s, 0.02, 1e-12) << "as the line says";
}

TEST(Cost, BreakEvenOfASoftwareAggregator) {
  EXPECT_NEAR(break_even_rate(2, 10), 20, 1e-9);
  EXPECT_NEAR(break_even_rate(16, 25), 16 * 16 * 25 / 30.0, 1e-9);
  // At that rate in-network takes as long as a ring.
  Calibration c = ten_gigabit();
  c.aggregator_bytes_per_s = break_even_rate(8, 10e9 / 8);
  EXPECT_NEAR(latency(c, Collective::kInNetwork, 8, 1e8), latency(c, Collective::kRing, 8, 1e8),
              1e-9);
}

TEST(Fit, ALineGoesThroughTheOuterSizesAndNeverBelowZero) {
  const std::vector<SizeSample> samples = {{1000, 0.002}, {1001000, 0.012}};
  const MeasuredCost line = line_through(samples);
  EXPECT_NEAR(line.per_byte_s, 1e-8, 1e-15);
  EXPECT_NEAR(line.fixed_s, 0.002 - 1e-5, 1e-9);
  const std::vector<SizeSample> noise = {{1000, 0.002}, {2000, 0.001}};
  EXPECT_EQ(line_through(noise).per_byte_s, 0);
}

TEST(Fit, SpreadIgnoresOutliers) {
  const Spread spread = spread_of({10, 11, 9, 10, 1000});
  EXPECT_EQ(spread.median, 10);
  EXPECT_NEAR(spread.relative_deviation, 1 / 13.49, 1e-4);
  EXPECT_EQ(spread_of({5}).relative_deviation, 0);
}

}  // namespace
}  // namespace sumcast::plan
