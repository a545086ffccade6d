// `sumcast train` in its other modes: late reads, no waiting at all, rows that come and go.
#include "cli/train_end_to_end.h"

namespace sumcast::cli {
namespace {

/// The last epoch's line.
nlohmann::json last_epoch(const std::string& printed) {
  nlohmann::json last;
  std::istringstream lines(printed);
  for (std::string line; std::getline(lines, line);) {
    const auto json = nlohmann::json::parse(line);
    if (json.contains("epoch")) last = json;
  }
  return last;
}

TEST_F(TrainEndToEnd, WithLateReadsHotKeysChangeNoBitAndLatenessDoes) {
  const auto cold =
      last_epoch(print_of({"--staleness", "2", "--hot", "0", "--checkpoint", path("cold")}));
  const auto hot = last_epoch(
      print_of({"--staleness", "2", "--hot", "200", "--track", "9", "--checkpoint", path("hot")}));
  EXPECT_EQ(cold.at("staleness"), 2);
  EXPECT_EQ(cold.at("hot_share"), 0);
  EXPECT_GT(hot.at("hot_share"), 0.1);
  EXPECT_EQ(cold.at("test_loss"), hot.at("test_loss"));
  EXPECT_GT(cold.at("auc"), 0.55);
  EXPECT_TRUE(model("cold") == model("hot"));
  (void)print_of({"--hot", "0", "--checkpoint", path("prompt")});
  EXPECT_FALSE(model("cold") == model("prompt"));
}

TEST_F(TrainEndToEnd, RoundedRowsLearnToTheSameBitsHotAndCold) {
  const auto cold =
      last_epoch(print_of({"--row-wire", "int8", "--hot", "0", "--checkpoint", path("cold")}));
  const auto hot = last_epoch(print_of(
      {"--row-wire", "int8", "--hot", "300", "--track", "9", "--checkpoint", path("hot")}));
  EXPECT_GT(hot.at("hot_share"), 0.1);
  EXPECT_EQ(cold.at("test_loss"), hot.at("test_loss"));
  EXPECT_TRUE(model("cold") == model("hot"));
  EXPECT_GT(cold.at("auc"), 0.55);
  (void)print_of({"--hot", "0", "--checkpoint", path("exact")});
  EXPECT_FALSE(model("cold") == model("exact"));
  EXPECT_THAT(print_of({"--row-wire", "fixed"}, 2),
              HasSubstr("--row-wire fixed: it must be fp32, bf16, fp16 or int8"));
}

TEST_F(TrainEndToEnd, WithoutWaitingItLearnsAndRefusesWhatNeedsAllWorkers) {
  const auto last = last_epoch(print_of({"--asynchronous", "--checkpoint", path("alone")}));
  EXPECT_EQ(last.at("asynchronous"), true);
  EXPECT_EQ(last.at("hot_share"), 0);
  EXPECT_GT(last.at("auc"), 0.55);
  EXPECT_GT(model("alone").rows.size(), 1000u);
  EXPECT_THAT(print_of({"--asynchronous", "--hot", "10"}, 2), HasSubstr("--hot 10: it must be 0"));
}

TEST_F(TrainEndToEnd, RowsComeAndGoWithTheSameBitsHotAndCold) {
  const std::vector<std::string> rule = {"--admit-after", "2", "--evict-after", "20"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.end(), rule.begin(), rule.end());
    return more;
  };
  const auto cold = last_epoch(print_of(with({"--hot", "0", "--checkpoint", path("cold")})));
  const auto hot =
      last_epoch(print_of(with({"--hot", "300", "--track", "9", "--checkpoint", path("hot")})));
  EXPECT_EQ(cold.at("test_loss"), hot.at("test_loss"));
  EXPECT_TRUE(model("cold") == model("hot"));
  EXPECT_GT(cold.at("auc"), 0.55);
  (void)print_of({"--hot", "0", "--checkpoint", path("all")});
  EXPECT_LT(model("cold").held, model("all").held / 2);
  // A table that is full makes room, if it may.
  (void)print_of({"--max-rows", "8000", "--evict-after", "1000000", "--hot", "0", "--checkpoint",
                  path("small")});
  EXPECT_LE(model("small").rows.size(), 8100u) << "each segment its share, rounded up";
  EXPECT_THAT(print_of({"--max-rows", "8000", "--hot", "0"}, 1), HasSubstr("the table is full"));
}

}  // namespace
}  // namespace sumcast::cli
