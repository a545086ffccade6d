#include "report/bench_rows.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <vector>

#include "report/ratio_table.h"

namespace sumcast::report {
namespace {

BenchRow row_of(const std::string& algo, uint64_t bytes, double time_us) {
  BenchRow row;
  row.algo = algo;
  row.bytes = bytes;
  row.time_us = time_us;
  return row;
}

TEST(BenchRow, IsOneObjectOnOneLineInAFixedOrder) {
  BenchRow row = row_of("in-network", 1024, 2.5);
  row.wrong = 0;
  const std::string line = to_json_line(row);
  EXPECT_EQ(line.find('\n'), std::string::npos);
  EXPECT_EQ(line.rfind("{\"algo\":\"in-network\",\"collective\":", 0), 0u) << line;
  const auto json = nlohmann::json::parse(line);
  EXPECT_EQ(json.size(), 21u);
  EXPECT_EQ(json["bytes"], 1024);
  EXPECT_EQ(json["wrong"], 0);
  EXPECT_TRUE(json["retransmits"].is_null());
}

TEST(BenchRow, SurvivesNumbersAndNamesThatJsonCannotHold) {
  BenchRow row = row_of("bad\xFF", 1, NAN);
  const auto json = nlohmann::json::parse(to_json_line(row));
  EXPECT_TRUE(json["time_us"].is_null());
  EXPECT_EQ(json["algo"], "bad\uFFFD");
}

TEST(RatioTable, PutsTheRatioBeforeTheTime) {
  const std::vector<BenchRow> rows = {
      row_of("in-network", 26'214'400, 743e3), row_of("ring", 26'214'400, 1310e3),
      row_of("in-network", 1024, 90), row_of("ring", 1024, 400), row_of("gloo", 1024, 380)};
  EXPECT_EQ(ratio_table(rows, "ring"),
            "   size  vs ring  in-network    ring  vs ring    gloo\n"
            "-------  -------  ----------  ------  -------  ------\n"
            "1.02 kB     4.4x       90 us  400 us     1.1x  380 us\n"
            "26.2 MB     1.8x      743 ms  1.31 s        -       -\n");
}

TEST(RatioTable, ComparesNothingWithAReferenceThatDidNotRun) {
  EXPECT_EQ(ratio_table(std::vector<BenchRow>{row_of("ring", 8, 5)}, "gloo"),
            "size  vs gloo  ring\n"
            "----  -------  ----\n"
            " 8 B        -  5 us\n");
}

}  // namespace
}  // namespace sumcast::report
