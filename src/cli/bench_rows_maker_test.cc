#include "cli/bench_rows_maker.h"

#include <gtest/gtest.h>

namespace sumcast::cli {
namespace {

BenchPlan plan_of(const std::string& rate) {
  BenchFlags flags;
  flags.workers = 8;
  flags.rate = rate;
  flags.bytes_min = "25M";
  return plan_bench(flags).value();
}

Tally tally_of(std::vector<double> out, std::vector<double> in) {
  Tally tally;
  tally.times_us = {std::move(out), std::move(in)};
  tally.wrong = {1, 2};
  tally.checked = true;
  tally.retransmits = 3;
  tally.operations = 4;
  tally.busy = 2s;
  tally.tx_bytes = {100, 400, 200};
  return tally;
}

TEST(BenchRowsMaker, FillsAllFieldsOfARow) {
  const BenchPlan plan = plan_of("300mbit");
  const auto row = bench_row_of(plan.contenders[0], plan, plan.cases[0], {1424, true},
                                tally_of({1}, {800e3, 750e3, 760e3}));
  EXPECT_EQ(row.algo, "in-network");
  EXPECT_EQ(row.type, "float");
  EXPECT_EQ(row.wire, "native");
  EXPECT_EQ(row.rate_bps, 300e6);
  EXPECT_EQ(row.time_us, 760e3);
  EXPECT_EQ(row.time_us_min, 750e3);
  EXPECT_EQ(row.time_us_max, 800e3);
  EXPECT_EQ(row.time_out_of_place_us, 1);
  EXPECT_NEAR(row.algbw_GBps, 26'214'400 / 760e6, 1e-9);
  EXPECT_NEAR(row.busbw_GBps, row.algbw_GBps * 1.75, 1e-9);
  EXPECT_NEAR(row.bound_us.value(), 743'730, 100);
  EXPECT_EQ(row.tx_bytes_per_worker, 100u);  // The busiest worker's, per operation.
  EXPECT_NEAR(row.cpu_s_per_GB.value(), 2e9 / (4 * 26'214'400.0), 1e-6);
  EXPECT_EQ(row.wrong, 3u);
}

TEST(BenchRowsMaker, LeavesOutWhatIsNotKnown) {
  const BenchPlan plan = plan_of("");
  Tally tally = tally_of({10}, {});
  tally.checked = false;
  tally.tx_bytes.clear();
  const auto row = bench_row_of(plan.contenders[0], plan, plan.cases[0], {1424, true}, tally);
  EXPECT_EQ(row.time_us, 10) << "the only half there is";
  EXPECT_FALSE(
      bench_row_of(plan.contenders[0], plan, plan.cases[0], {1424, true}, tally_of({}, {10}))
          .time_out_of_place_us);
  EXPECT_FALSE(row.bound_us);
  EXPECT_FALSE(row.tx_bytes_per_worker);
  EXPECT_FALSE(row.wrong);
}

TEST(BenchRowsMaker, LeavesTheOutOfPlaceHalfBlankWhereThereIsNone) {
  const BenchPlan plan = plan_of("");
  const auto both = nccl_row_of(plan.cases[0], 8, tally_of({3, 1, 2}, {5}));
  EXPECT_EQ(both.out_of_place->time_us, 2);
  EXPECT_EQ(both.out_of_place->wrong, 1);
  EXPECT_EQ(both.in_place.time_us, 5);
  EXPECT_EQ(both.in_place.wrong, 2);
  EXPECT_EQ(both.root, -1);
  EXPECT_FALSE(nccl_row_of(plan.cases[0], 8, tally_of({}, {5})).out_of_place);
}

TEST(BenchRowsMaker, TellsTheSpreadOfIterations) {
  EXPECT_EQ(spread_line(tally_of({2, 4}, {})),
            "#   i_min 2.00  i_max 4.00  i_p99 4.00  i_cv 47.1 %");
}

}  // namespace
}  // namespace sumcast::cli
