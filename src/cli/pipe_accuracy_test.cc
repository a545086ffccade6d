#include "cli/pipe_accuracy.h"

#include <gtest/gtest.h>

#include "cli/pipe_print.h"

namespace sumcast::cli {
namespace {

using plan::Collective;
using plan::Schedule;

PipeRow row(Schedule schedule, WireFormat wire, uint32_t width, double step_s) {
  PipeRow r;
  r.model = "mlp";
  r.workers = 4;
  r.ratio = 2;
  r.mode = {schedule, Collective::kInNetwork, wire, width};
  r.predicted.step_s = r.step_s = step_s;
  return r;
}

ConvergenceRun run(const char* variant, uint64_t seed, std::vector<double> epochs) {
  return {
      "sgd",         variant, seed,  "4 workers, 2 epochs of all images, batch 1536, 9 more words",
      epochs.back(), 0.1,     epochs};
}

TEST(PipeAccuracy, AGridsTextSaysHowManyStepsAnEpochHas) {
  const auto grid = grid_from_text("4 workers, 3 epochs of 20000 images, batch 128");
  ASSERT_TRUE(grid.has_value());
  EXPECT_EQ(grid->workers, 4u);
  EXPECT_EQ(grid->steps_per_epoch(), 39);
  EXPECT_EQ(grid_from_text("2 workers, 3 epochs of all images, batch 1536")->steps_per_epoch(), 19);
  for (const char* text : {"", "4 workers", "4 workers, 3 epochs of some images, batch 128",
                           "0 workers, 3 epochs of all images, batch 128",
                           "4 workers, 3 epochs of 5 images, batch 128"}) {
    EXPECT_FALSE(grid_from_text(text).has_value()) << text;
  }
}

TEST(PipeAccuracy, EveryVariantNamedExistsAndHasTheModesWidth) {
  for (const plan::Mode& mode : pipe_modes(PipeScope::kAll)) {
    const std::string_view name = variant_of(mode);
    if (name.empty()) continue;
    const ConvergenceVariant* const variant = variant_from_name(name);
    ASSERT_NE(variant, nullptr) << name;
    EXPECT_EQ(variant->width, mode.width) << plan::describe(mode);
    if (mode.schedule == Schedule::kPipe && mode.width == 2 && mode.wire != WireFormat::kNative) {
      EXPECT_EQ(variant->encoder, plan::payload_name(mode));
    }
  }
}

TEST(PipeAccuracy, CurvesAreMeansOfTheRunsAtTheModesPace) {
  const std::vector<PipeRow> rows = {row(Schedule::kSync, WireFormat::kNative, 1, 0.5),
                                     row(Schedule::kPipe, WireFormat::kNative, 2, 0.2),
                                     row(Schedule::kPipe, WireFormat::kInt8, 2, 0.1)};
  report::PipelineReportData data = pipe_report(rows);
  const std::vector<ConvergenceRun> runs = {run("sync", 1, {0.6, 0.8}), run("sync", 2, {0.7, 0.9}),
                                            run("local", 1, {0.5, 0.84})};
  ASSERT_TRUE(add_accuracy(rows, runs, data).has_value());
  const auto& curves = data.sections[0].curves;
  ASSERT_EQ(curves.size(), 2u) << "nobody has trained with int8";
  EXPECT_NEAR(curves[0].accuracy[1], 0.85, 1e-9);
  EXPECT_NEAR(curves[0].seconds[1], 2 * 9 * 0.5, 1e-9);
  EXPECT_NEAR(curves[1].seconds[1], 2 * 9 * 0.2, 1e-9);
  EXPECT_NEAR(data.sections[0].target_accuracy, 0.84, 1e-9);
  EXPECT_NEAR(*report::seconds_to(curves[1], 0.84), 3.6, 1e-9);
}

TEST(PipeAccuracy, RunsOfAnotherConfigurationAreOneClearError) {
  std::vector<PipeRow> rows = {row(Schedule::kSync, WireFormat::kNative, 1, 0.5)};
  rows[0].workers = 2;
  report::PipelineReportData data = pipe_report(rows);
  const auto added = add_accuracy(rows, {run("sync", 1, {0.6, 0.8})}, data);
  ASSERT_FALSE(added.has_value());
  EXPECT_NE(added.error().what.find("--workers 2 --batch 1536"), std::string::npos);
}

}  // namespace
}  // namespace sumcast::cli
