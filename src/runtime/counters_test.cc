#include "runtime/counters.h"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <thread>

#include "runtime/prometheus.h"

namespace sumcast::runtime {
namespace {

enum class Counter : uint16_t { kReceived, kRejectedAuth, kRejectedEpoch, kLongestCycle };

constexpr std::array<CounterInfo, 4> kTable = {{
    {0, "sumcast_rx_packets_total", "packets", "Datagrams received"},
    {1, "sumcast_rejected_packets_total", "packets", "Datagrams refused", CounterKind::kSum,
     "reason=\"auth\""},
    {2, "sumcast_rejected_packets_total", "packets", "Datagrams refused", CounterKind::kSum,
     "reason=\"epoch\""},
    {3, "sumcast_loop_cycle_ns_max", "ns", "Longest duty cycle", CounterKind::kPeak},
}};

TEST(Counters, SumOverThreadsWithoutLosingAny) {
  CounterSet set(kTable);
  constexpr int kThreads = 4;
  constexpr uint64_t kEvents = 20000;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&set, i] {
      CounterBlock& block = set.new_block();
      for (uint64_t n = 0; n < kEvents; ++n) block.add(Counter::kReceived);
      block.add(Counter::kRejectedEpoch, 10);
      block.raise(Counter::kLongestCycle, static_cast<uint64_t>(100 * (i + 1)));
      block.raise(Counter::kLongestCycle, 7);
    });
  }
  uint64_t before = 0;
  for (int i = 0; i < 100; ++i) {
    const uint64_t now = set.snapshot()[0];
    EXPECT_GE(now, before);
    before = now;
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(set.snapshot(), (std::vector<uint64_t>{kThreads * kEvents, 0, kThreads * 10, 400}));
}

TEST(Counters, BlocksShareNoCacheLine) {
  CounterSet set(kTable);
  const CounterBlock& a = set.new_block();
  const CounterBlock& b = set.new_block();
  EXPECT_NE(&a, &b);
  set.new_block().add(Counter::kReceived, 3);
  EXPECT_EQ(a.read(Counter::kReceived), 0u);
  EXPECT_EQ(set.snapshot()[0], 3u);
}

TEST(CountersDeathTest, ATableOutOfOrderIsOurBug) {
  static constexpr std::array<CounterInfo, 1> kWrong = {{{1, "a", "b", "c"}}};
  EXPECT_DEATH(CounterSet set(kWrong), "internal error");
}

TEST(Prometheus, WritesOneHeadForEachNameWithItsSamplesTogether) {
  const std::vector<uint64_t> one = {5, 1, 2, 900};
  const std::vector<uint64_t> two = {6, 0, 0, 70};
  const std::array<CounterSource, 2> sources = {
      {{kTable, one, {{"job", "7"}}}, {kTable, two, {{"job", "8"}}}}};
  EXPECT_EQ(prometheus_text(sources),
            "# HELP sumcast_rx_packets_total Datagrams received (packets).\n"
            "# TYPE sumcast_rx_packets_total counter\n"
            "sumcast_rx_packets_total{job=\"7\"} 5\n"
            "sumcast_rx_packets_total{job=\"8\"} 6\n"
            "# HELP sumcast_rejected_packets_total Datagrams refused (packets).\n"
            "# TYPE sumcast_rejected_packets_total counter\n"
            "sumcast_rejected_packets_total{reason=\"auth\",job=\"7\"} 1\n"
            "sumcast_rejected_packets_total{reason=\"epoch\",job=\"7\"} 2\n"
            "sumcast_rejected_packets_total{reason=\"auth\",job=\"8\"} 0\n"
            "sumcast_rejected_packets_total{reason=\"epoch\",job=\"8\"} 0\n"
            "# HELP sumcast_loop_cycle_ns_max Longest duty cycle (ns).\n"
            "# TYPE sumcast_loop_cycle_ns_max gauge\n"
            "sumcast_loop_cycle_ns_max{job=\"7\"} 900\n"
            "sumcast_loop_cycle_ns_max{job=\"8\"} 70\n");
}

TEST(Prometheus, EscapesWhatCameFromOutside) {
  PrometheusWriter writer;
  writer.family("sumcast_jobs", MetricType::kGauge, "Jobs\nby \\ state");
  writer.sample({{"name", "a\"b\\c\nd"}, {"state", "up"}}, uint64_t{3});
  writer.sample({}, 0.5);
  EXPECT_EQ(writer.text(),
            "# HELP sumcast_jobs Jobs\\nby \\\\ state\n"
            "# TYPE sumcast_jobs gauge\n"
            "sumcast_jobs{name=\"a\\\"b\\\\c\\nd\",state=\"up\"} 3\n"
            "sumcast_jobs 0.5\n");
}

TEST(PrometheusDeathTest, AFamilyBegunTwiceIsOurBug) {
  PrometheusWriter writer;
  writer.family("sumcast_jobs", MetricType::kGauge, "Jobs");
  EXPECT_DEATH(writer.family("sumcast_jobs", MetricType::kGauge, "Jobs"), "internal error");
}

}  // namespace
}  // namespace sumcast::runtime
