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

TEST(TrainCompare, ALineThatIsNoEpochIsQuoted) {
  const auto run = compare_run_of({"hello"});
  ASSERT_FALSE(run.has_value());
  EXPECT_THAT(run.error().what, HasSubstr("\"hello\""));
}

}  // namespace
}  // namespace sumcast::cli
