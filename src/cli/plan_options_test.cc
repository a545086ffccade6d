#include "cli/plan_options.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli/plan_print.h"

namespace sumcast::cli {
namespace {

PlanFlags good() {
  PlanFlags flags;
  flags.workers = 16;
  flags.bandwidth = "25gbit";
  flags.model_bytes = "100MB";
  flags.step_time = "120ms";
  return flags;
}

TEST(PlanOptions, FlagsBecomeThePlannersNumbers) {
  const auto request = plan_request(good(), nullptr, nullptr);
  ASSERT_TRUE(request.has_value()) << request.error().what;
  EXPECT_NEAR(request->step.bytes(), 100.0 * (1 << 20), 1);
  EXPECT_NEAR(request->step.compute_s(), 0.12, 1e-9);
  EXPECT_NEAR(request->calibration.up_s_per_byte, 8 / 25e9 / kPayloadShare, 1e-15);
  EXPECT_EQ(request->setting.workers, 16u);
}

TEST(PlanOptions, EveryMistakeIsOneLineThatNamesItsFlag) {
  const auto says = [](const auto& change, const char* what) {
    PlanFlags flags = good();
    change(flags);
    const auto request = plan_request(flags, nullptr, nullptr);
    ASSERT_FALSE(request.has_value()) << what;
    EXPECT_EQ(request.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(request.error().what.find(what), std::string::npos) << request.error().what;
    EXPECT_EQ(request.error().what.find('\n'), std::string::npos);
  };
  says([](PlanFlags& f) { f.workers = 1; }, "--workers");
  says([](PlanFlags& f) { f.bandwidth = "-25gbit"; }, "--bandwidth");
  says([](PlanFlags& f) { f.bandwidth = "0gbit"; }, "--bandwidth must be above 0");
  says([](PlanFlags& f) { f.bandwidth = ""; }, "--bandwidth");
  says([](PlanFlags& f) { f.bandwidth = "25"; }, "--bandwidth");
  says([](PlanFlags& f) { f.model_bytes = ""; }, "no gradients");
  says([](PlanFlags& f) { f.model_bytes = "0"; }, "no gradients");
  says([](PlanFlags& f) { f.model_bytes = "lots"; }, "--model-bytes");
  says([](PlanFlags& f) { f.step_time = "-1ms"; }, "--step-time");
  says([](PlanFlags& f) { f.step_time = ""; }, "--step-time");
  says([](PlanFlags& f) { f.latency = "20"; }, "--latency");
  says([](PlanFlags& f) { f.aggregator_bandwidth = "fast"; }, "--aggregator-bandwidth");
  says([](PlanFlags& f) { f.forward_share = 1.5; }, "--forward-share");
  says([](PlanFlags& f) { f.layers = 0; }, "--layers");
  says([](PlanFlags& f) { f.width = 9; }, "--width must be 1 to 8");
  says([](PlanFlags& f) { f.steps = 3; }, "--width 4 is more than the 3 steps");
}

TEST(PlanOptions, ATraceGivesWhatFlagsDoNotOverride) {
  plan::TraceSummary trace;
  trace.bytes = 5e6;
  trace.compute_s = 0.05;
  PlanFlags flags = good();
  flags.model_bytes = flags.step_time = "";
  EXPECT_NEAR(plan_request(flags, &trace, nullptr)->step.bytes(), 5e6, 1);
  flags.step_time = "70ms";
  EXPECT_NEAR(plan_request(flags, &trace, nullptr)->step.compute_s(), 0.07, 1e-9);
}

TEST(PlanOptions, AfterAProbeOnlyWhatWasMeasuredIsOnOffer) {
  plan::Calibration probed;
  probed.measured[{plan::Collective::kRing, WireFormat::kNative}] = {1e-4, 1e-9, 0};
  PlanFlags flags = good();
  flags.bandwidth = "";
  const auto request = plan_request(flags, nullptr, &probed);
  ASSERT_TRUE(request.has_value());
  for (const plan::Mode& mode : request->modes) {
    EXPECT_EQ(mode.collective, plan::Collective::kRing);
  }
}

TEST(PlanPrint, TextHasAdviceAndBreakEvenAndJsonHasEveryMode) {
  const auto request = plan_request(good(), nullptr, nullptr);
  const plan::Advice advice =
      plan::advise(request->calibration, request->step, request->setting, request->modes);
  const std::string text = plan_text(*request, advice, 5);
  EXPECT_NE(text.find("advice: "), std::string::npos);
  EXPECT_NE(text.find("<- take this"), std::string::npos);
  EXPECT_NE(text.find("ties with a ring from 213 Gbit/s on"), std::string::npos) << text;
  const auto json = nlohmann::json::parse(plan_json(*request, advice));
  EXPECT_EQ(json["modes"].size(), request->modes.size());
  EXPECT_GT(json["best"]["predicted_us"], 0);
  EXPECT_LE(json["best"]["predicted_low_us"], json["best"]["predicted_us"]);
  EXPECT_NEAR(json["break_even_bits_per_second"], 16.0 * 16 * 25e9 / 30, 1);
}

}  // namespace
}  // namespace sumcast::cli
