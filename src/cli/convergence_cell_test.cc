#include "cli/convergence_cell.h"

#include <gtest/gtest.h>

#include <cmath>

namespace sumcast::cli {
namespace {

TEST(Convergence, EveryVariantInEverySettingIsAValidTraining) {
  for (const ConvergenceSetting& setting : convergence_settings()) {
    for (const ConvergenceVariant& variant : convergence_variants()) {
      const auto options = options_for({}, setting, variant, 1000, 100);
      EXPECT_TRUE(options.validate().empty()) << setting.name << " " << variant.name;
      EXPECT_EQ(options.pipeline.width == 1, variant.name == "sync" || variant.turns);
      EXPECT_EQ(options.pipeline.fresh_from == 900, variant.fresh_output);
      EXPECT_EQ(static_cast<bool>(options.encoder), !variant.encoder.empty());
      if (options.encoder) {
        EXPECT_NE(options.encoder(), nullptr);
      }
    }
  }
}

TEST(Convergence, RunsSurviveTheirLinesAndOthersAreErrors) {
  const ConvergenceRun run{"sgd", "plain", 3, "a grid", 0.88, 0.25, {0.8, 0.88}};
  const auto back = run_from_json(to_json_line(run));
  ASSERT_TRUE(back.has_value());
  EXPECT_EQ(to_json_line(*back), to_json_line(run));
  EXPECT_FALSE(run_from_json("").has_value());
  EXPECT_FALSE(run_from_json("{}").has_value());
}

std::string table_of(const std::vector<double>& sync, const std::vector<double>& plain,
                     const std::vector<double>& local, double loss_of_plain = 0.5) {
  std::vector<ConvergenceRun> runs;
  const auto add = [&](const char* variant, const std::vector<double>& accuracies, double loss) {
    for (const double a : accuracies) runs.push_back({"sgd", variant, 1, "", a, loss, {}});
  };
  add("sync", sync, 0.5);
  add("plain", plain, loss_of_plain);
  add("local", local, 0.5);
  return convergence_table(runs);
}

TEST(Convergence, AGapCountsWithFiveSeedsAndAboveTwiceThePooledDeviationOnly) {
  const std::vector<double> sync = {0.880, 0.881, 0.882, 0.880, 0.882};
  const std::vector<double> plain = {0.860, 0.861, 0.862, 0.860, 0.862};
  const std::vector<double> local = {0.878, 0.879, 0.880, 0.878, 0.880};
  EXPECT_NE(table_of(sync, plain, local).find(" 90 %"), std::string::npos);
  const auto few = table_of(sync, plain, {0.878, 0.879, 0.880});
  EXPECT_NE(few.find("(90 %)"), std::string::npos) << few;
  const auto noisy = table_of({0.88, 0.86, 0.90, 0.86, 0.90}, {0.87, 0.85, 0.89, 0.85, 0.89},
                              {0.88, 0.88, 0.88, 0.88, 0.88});
  EXPECT_EQ(noisy.find("100 %"), std::string::npos) << noisy;
}

TEST(Convergence, NothingIsSaidOfAGapWhosePlainRunsDiverged) {
  const std::vector<double> sync = {0.880, 0.881}, plain = {0.860, 0.861}, local = {0.878, 0.879};
  EXPECT_NE(table_of(sync, plain, local).find("(90 %)"), std::string::npos);
  for (const double loss : {2.3, static_cast<double>(NAN)}) {
    const auto table = table_of(sync, plain, local, loss);
    EXPECT_EQ(table.find("90 %"), std::string::npos) << table;
    EXPECT_EQ(table.find("86.0"), std::string::npos) << table;
  }
}

}  // namespace
}  // namespace sumcast::cli
