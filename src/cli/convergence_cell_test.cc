#include "cli/convergence_cell.h"

#include <gtest/gtest.h>

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

TEST(Convergence, AGapCountsOnlyAboveTwiceThePooledDeviation) {
  std::vector<ConvergenceRun> runs;
  const auto add = [&](const char* variant, std::initializer_list<double> accuracies) {
    for (const double a : accuracies) runs.push_back({"sgd", variant, 1, "", a, 0, {}});
  };
  add("sync", {0.880, 0.881, 0.882});
  add("plain", {0.860, 0.861, 0.862});
  add("forecast", {0.878, 0.879, 0.880});
  EXPECT_NE(convergence_table(runs).find("90 %"), std::string::npos) << convergence_table(runs);
  runs.clear();
  add("sync", {0.88, 0.86, 0.90});
  add("plain", {0.87, 0.85, 0.89});
  add("forecast", {0.88, 0.88, 0.88});
  EXPECT_EQ(convergence_table(runs).find("100 %"), std::string::npos) << convergence_table(runs);
}

}  // namespace
}  // namespace sumcast::cli
