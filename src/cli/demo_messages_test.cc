#include "cli/demo_messages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace sumcast::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

WorkerPlan some_plan() {
  WorkerPlan plan;
  plan.method = "ring";
  plan.job = "demo \"quoted\"";
  plan.rank = 3;
  plan.world = 4;
  plan.coordinator = "10.77.1.1:4712";
  plan.key_file = "/tmp/key";
  plan.data = "/data";
  plan.images = 512;
  plan.width = 0;
  plan.auto_wire = true;
  plan.seed = std::numeric_limits<uint64_t>::max();
  return plan;
}

TEST(DemoMessages, APlanComesBackAsItWasSentOnOneLine) {
  const std::string line = encode(some_plan());
  EXPECT_EQ(line.find('\n'), std::string::npos);
  const Result<WorkerPlan> back = decode_plan(line);
  ASSERT_TRUE(back.has_value()) << back.error().what;
  EXPECT_EQ(*back, some_plan());
}

TEST(DemoMessages, AResultKeepsEveryBit) {
  WorkerResult result;
  result.step_median = 12'345'678ns;
  result.reductions = {1ms, 2ms};
  result.losses = {2.3025851f, std::numeric_limits<float>::quiet_NaN()};
  result.gradient_bytes = 2'678'824;
  result.weights_hash = 0xFEDCBA9876543210u;
  result.datagram_bytes = 1ull << 40;
  result.accuracy = 0.8825;
  result.width = 3;
  result.wire = "bf16";
  const auto message = decode_message(encode(WorkerMessage(result)));
  ASSERT_TRUE(message.has_value()) << message.error().what;
  const auto& back = std::get<WorkerResult>(*message);
  EXPECT_EQ(back.step_median, result.step_median);
  EXPECT_THAT(back.reductions, ElementsAre(1ms, 2ms));
  EXPECT_EQ(back.losses[0], result.losses[0]);
  EXPECT_TRUE(std::isnan(back.losses[1]));
  EXPECT_EQ(back.gradient_bytes, result.gradient_bytes);
  EXPECT_EQ(back.weights_hash, result.weights_hash);
  EXPECT_EQ(back.datagram_bytes, result.datagram_bytes);
  EXPECT_EQ(back.accuracy, result.accuracy);
  EXPECT_EQ(back.width, 3u);
  EXPECT_EQ(back.wire, "bf16");
}

TEST(DemoMessages, AccuracyIsOptionalAndOtherKindsSurviveToo) {
  const auto result = decode_message(encode(WorkerMessage(WorkerResult{})));
  ASSERT_TRUE(result.has_value());
  EXPECT_FALSE(std::get<WorkerResult>(*result).accuracy.has_value());
  const auto step = decode_message(encode(WorkerMessage(WorkerStep{7, 0.5f})));
  ASSERT_TRUE(step.has_value());
  EXPECT_EQ(std::get<WorkerStep>(*step).step, 7u);
  EXPECT_EQ(std::get<WorkerStep>(*step).loss, 0.5f);
  const auto failed = decode_message(encode(WorkerMessage(WorkerFailed{"rank 2\xff died"})));
  ASSERT_TRUE(failed.has_value());
  EXPECT_THAT(std::get<WorkerFailed>(*failed).text, HasSubstr("died"));
  const auto ready = decode_message(encode(WorkerMessage(WorkerReady{})));
  ASSERT_TRUE(ready.has_value());
  EXPECT_TRUE(std::holds_alternative<WorkerReady>(*ready));
}

TEST(DemoMessages, WhateverElseIsPrintedIsAnErrorThatQuotesIt) {
  for (const char* line :
       {"", "hello", "{}", "[]", "null", R"({"kind":"dance"})", R"({"kind":"step","step":"x"})",
        R"({"kind":"result"})", R"({"kind":"failed"})", R"({"kind":"step","step":1)"}) {
    const auto message = decode_message(line);
    ASSERT_FALSE(message.has_value()) << line;
    EXPECT_EQ(message.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(message.error().what, HasSubstr(line));
  }
  EXPECT_FALSE(decode_plan("{}").has_value());
}

TEST(DemoMessages, AHashMustHaveSixteenHexDigits) {
  std::string line = encode(WorkerMessage(WorkerResult{}));
  const size_t at = line.find("0000000000000000");
  ASSERT_NE(at, std::string::npos);
  line.replace(at, 16, "12z");
  EXPECT_FALSE(decode_message(line).has_value());
}

}  // namespace
}  // namespace sumcast::cli
