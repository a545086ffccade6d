#include "report/nccl_table.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

namespace sumcast::report {
namespace {

NcclRow row_of(uint64_t bytes, NcclTiming out_of_place, NcclTiming in_place) {
  NcclRow row;
  row.bytes = bytes;
  row.count = bytes / 4;
  row.out_of_place = out_of_place;
  row.in_place = in_place;
  return row;
}

TEST(NcclTable, RowsHaveTheWidthsOfNcclTests) {
  EXPECT_EQ(nccl_row(row_of(1048576, {812.34, 1.29, 2.26, 0}, {799.9, 1.31, 2.29, 0})),
            "     1048576        262144     float     sum      -1"
            "   812.34    1.29    2.26       0   799.90    1.31    2.29       0\n");
}

TEST(NcclTable, FiguresLoseDecimalsRatherThanAlignment) {
  EXPECT_EQ(
      nccl_row(row_of(8, {12345.67, 123.456, 1234.56, 3}, {1234567.8, 0.001, 9999999.0, 2e6})),
      "           8             2     float     sum      -1"
      "  12345.7  123.46  1234.6       3  1234568    0.00   1e+07   2e+06\n");
}

TEST(NcclTable, FiguresBeyondTheWidthTurnToExponents) {
  const std::string row = nccl_row(row_of(8, {123456789.0, 1, 1, 0}, {1, 1, 1, 0}));
  EXPECT_NE(row.find("  1.2e+08  "), std::string::npos) << row;
}

TEST(NcclTable, UncheckedResultsAreNotAvailable) {
  EXPECT_EQ(nccl_row(row_of(4, {1, 1, 1, std::nullopt}, {1, 1, 1, std::nullopt})),
            "           4             1     float     sum      -1"
            "     1.00    1.00    1.00     N/A     1.00    1.00    1.00     N/A\n");
}

TEST(NcclTable, ARowInPlaceOnlyLeavesTheOtherHalfBlank) {
  NcclRow row = row_of(4, {}, {1, 1, 1, 0});
  row.out_of_place.reset();
  EXPECT_EQ(nccl_row(row), "           4             1     float     sum      -1" +
                               std::string(32, ' ') + "     1.00    1.00    1.00       0\n");
}

TEST(NcclTable, HeaderIsThatOfNcclTests) {
  NcclRun run;
  run.library_version = 100;
  run.bytes_min = 8;
  run.bytes_max = 1024;
  run.devices = {{0, 0, 4242, "node1", 0, "Xeon"}, {1, 0, 4243, "node2", 0, "Xeon"}};
  EXPECT_EQ(
      nccl_header(run),
      "# nccl-tests version 2.19.6 nccl-headers=0 nccl-library=100\n"
      "# Collective test starting: all_reduce_perf\n"
      "# nThread 1 nGpus 1 minBytes 8 maxBytes 1024 step: 2(factor) warmup iters: 1 iters: 20 agg "
      "iters: 1 validation: 1 graph: 0 unalign: 0\n"
      "#\n"
      "# Using devices\n"
      "#  Rank  0 Group  0 Pid   4242 on      node1 device  0 [0000:00:00] Xeon\n"
      "#  Rank  1 Group  0 Pid   4243 on      node2 device  0 [0000:00:00] Xeon\n"
      "#\n"
      "#                                                              out-of-place                 "
      "      in-place          \n"
      "#       size         count      type   redop    root     time   algbw   busbw  #wrong     "
      "time   algbw   busbw  #wrong \n"
      "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             "
      "(us)  (GB/s)  (GB/s)         \n");
}

TEST(NcclTable, FooterJudgesElementsAndBandwidth) {
  const std::vector<NcclRow> good = {row_of(4, {1, 2, 4.25, 0}, {1, 2, 4.15, 0})};
  EXPECT_EQ(nccl_footer({}, good, {}),
            "# Out of bounds values : 0 OK\n"
            "# Avg bus bandwidth    : 4.2 \n"
            "#\n"
            "# Collective test concluded: all_reduce_perf\n");
  EXPECT_NE(nccl_footer({}, good, 4.6).find(": 4.2 OK"), std::string::npos);
  EXPECT_NE(nccl_footer({}, good, 5.0).find(": 4.2 FAILED"), std::string::npos);
  EXPECT_TRUE(nccl_verdict(good, 4.6).okay);
  EXPECT_FALSE(nccl_verdict(good, 5.0).okay);
  const std::vector<NcclRow> bad = {row_of(4, {1, 2, 4, 7}, {1, 2, 4, 0})};
  EXPECT_NE(nccl_footer({}, bad, {}).find("values : 1 FAILED"), std::string::npos);
  EXPECT_FALSE(nccl_verdict(bad, {}).okay);
  EXPECT_TRUE(nccl_verdict({}, {}).okay);
}

TEST(NcclTable, BusBandwidthIsThatOfALink) {
  EXPECT_DOUBLE_EQ(bus_bandwidth_factor(Collective::kAllReduce, 4), 1.5);
  EXPECT_DOUBLE_EQ(bus_bandwidth_factor(Collective::kAllGather, 4), 0.75);
  EXPECT_DOUBLE_EQ(bus_bandwidth_factor(Collective::kReduceScatter, 4), 0.75);
  EXPECT_DOUBLE_EQ(bus_bandwidth_factor(Collective::kBroadcast, 4), 1.0);
  EXPECT_DOUBLE_EQ(bus_bandwidth_factor(Collective::kAllReduce, 1), 0.0);
  const NcclTiming timing = nccl_timing(Collective::kAllReduce, 4, 1'000'000, 500.0, 0);
  EXPECT_DOUBLE_EQ(timing.algbw_GBps, 2.0);
  EXPECT_DOUBLE_EQ(timing.busbw_GBps, 3.0);
}

TEST(NcclTable, SpeaksInNcclsWords) {
  EXPECT_EQ(nccl_name(ElementType::kF32), "float");
  EXPECT_EQ(nccl_name(ElementType::kF16), "half");
  EXPECT_EQ(nccl_name(ElementType::kBF16), "bfloat16");
  EXPECT_EQ(nccl_name(ElementType::kF64), "double");
  EXPECT_EQ(nccl_name(ElementType::kI8), "int8");
  EXPECT_EQ(nccl_name(ElementType::kI64), "int64");
  EXPECT_EQ(nccl_name(Reduction::kProduct), "prod");
  EXPECT_EQ(nccl_name(Reduction::kAvg), "avg");
  EXPECT_EQ(nccl_name(Reduction::kCopy), "none");
}

TEST(NcclTable, DocumentHasTheFieldsThatReadersLookFor) {
  NcclRun run;
  run.devices = {{0, 0, 4242, "node1", 0, "Xeon"}};
  const std::vector<NcclRow> rows = {row_of(4, {1, 2, 4, 0}, {1, 2, 4, std::nullopt})};
  const auto json = nlohmann::json::parse(nccl_json(
      run, rows, {}, {"2025-11-29 18:00:00", "2025-11-29 18:00:09", {"bench", "-b", "8"}, {}}));
  for (const char* key : {"version", "start_time", "args", "env", "nccl_version", "config",
                          "results", "out_of_bounds", "average_bus_bandwidth", "end_time"}) {
    EXPECT_TRUE(json.contains(key)) << key;
  }
  EXPECT_EQ(json["version"], 3);
  EXPECT_EQ(json["args"][1], "-b");
  EXPECT_EQ(json["config"]["step_factor"], 2);
  EXPECT_EQ(json["config"]["devices"][0]["hostname"], "node1");
  EXPECT_EQ(json["results"][0]["size"], 4);
  EXPECT_EQ(json["results"][0]["root"], "    -1");
  EXPECT_EQ(json["results"][0]["out_of_place"]["bus_bw"], 4.0);
  EXPECT_TRUE(json["results"][0]["in_place"]["nwrong"].is_null());
  EXPECT_EQ(json["out_of_bounds"]["okay"], "true");
  EXPECT_EQ(json["average_bus_bandwidth"]["okay"], "unchecked");
}

}  // namespace
}  // namespace sumcast::report
