#include "cli/train_compare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sumcast::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(TrainCompare, TimeIsSummedUntilAnEpochEndsWithTheLoss) {
  const auto run =
      compare_run_of({R"({"test_loss": 0.6, "seconds": 2.0, "steps": 10, "hot_share": 0.0})",
                      R"({"test_loss": 0.5, "seconds": 1.5, "steps": 10, "hot_share": 0.25})"});
  ASSERT_TRUE(run.has_value());
  EXPECT_THAT(run->losses, ElementsAre(0.6, 0.5));
  EXPECT_EQ(run->steps, 10u);
  EXPECT_EQ(run->hot_share, 0.25);
  EXPECT_EQ(run->seconds_until(0.7), 2.0);
  EXPECT_EQ(run->seconds_until(0.5), 3.5);
  EXPECT_FALSE(run->seconds_until(0.4).has_value());
}

CompareRun run_of(double first, double second) { return {{0.6, 0.5}, {first, second}, 10, 0.25}; }

TEST(TrainCompare, ARowHasMediansAndHowFarTrainingsLieApart) {
  const std::vector<CompareRun> servers = {run_of(2, 2), run_of(3, 3), run_of(8, 4)};
  const std::vector<CompareRun> dual = {run_of(1, 1), run_of(1, 2), run_of(2, 1)};
  const auto row = compare_row("dual", dual, servers, 0.5);
  ASSERT_TRUE(row.has_value());
  EXPECT_THAT(row->seconds_of_runs, ElementsAre(2, 3, 3));
  EXPECT_EQ(row->seconds.median, 3);
  EXPECT_EQ(row->seconds.min, 2);
  EXPECT_EQ(row->seconds.max, 3);
  EXPECT_EQ(row->faster_by.median, 2) << "of 2, 2 and 4";
  EXPECT_EQ(row->faster_by.max, 4);
  EXPECT_EQ(row->step_ms, 150) << "of 100, 150 and 150";
  const auto early = compare_row("dual", dual, servers, 0.6);
  ASSERT_TRUE(early.has_value());
  EXPECT_THAT(early->seconds_of_runs, ElementsAre(1, 1, 2));
}

TEST(TrainCompare, OtherLossesAreAnError) {
  std::vector<CompareRun> runs = {run_of(1, 1), run_of(1, 1)};
  const std::vector<CompareRun> base = runs;
  runs[1].losses[0] = 0.7;
  const auto row = compare_row("dual", runs, base, 0.5);
  ASSERT_FALSE(row.has_value());
  EXPECT_EQ(row.error().code, ErrorCode::kMismatch);
}

TEST(TrainCompare, ALinkThatCannotBeIsNamedBeforeAnythingStarts) {
  for (const char* const link : {"5", "fast", "0mbit"}) {
    CompareFlags flags;
    flags.rate = link;
    const auto refused = run_comparison({}, flags);
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(refused.error().what, HasSubstr("--link " + std::string(link) + ": it must be"));
  }
}

TEST(TrainCompare, ALineThatIsNoEpochIsQuoted) {
  const auto run = compare_run_of({"hello"});
  ASSERT_FALSE(run.has_value());
  EXPECT_THAT(run.error().what, HasSubstr("\"hello\""));
}

}  // namespace
}  // namespace sumcast::cli
