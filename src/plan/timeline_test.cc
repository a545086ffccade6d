#include "plan/timeline.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

#include "plan/chakra.h"
#include "plan/trace.h"

namespace sumcast::plan {
namespace {

Calibration links() {
  Calibration c;
  c.alpha_s = c.startup_s = 0;
  c.up_s_per_byte = c.down_s_per_byte = 1e-8;
  c.compute_jitter = c.network_jitter = 0;
  return c;
}

const Setting kFour{4, 1e6};

Timeline laid_out(Schedule schedule, uint32_t width = 1) {
  return timeline_of(links(), even_step(4e6, 0.12, 4), kFour,
                     {schedule, Collective::kInNetwork, WireFormat::kNative, width});
}

TEST(Timeline, PerfettoJsonReadBackIsTheStepThatWasWritten) {
  const Timeline timeline = laid_out(Schedule::kSync);
  const auto summary = read_trace(to_perfetto(timeline, 5));
  ASSERT_TRUE(summary.has_value()) << summary.error().what;
  EXPECT_EQ(summary->steps, 5);
  EXPECT_EQ(summary->operations, 1);
  EXPECT_NEAR(summary->bytes, 4e6, 1);
  EXPECT_NEAR(summary->step_s, 0.16, 1e-9);
  EXPECT_NEAR(summary->compute_s, 0.12, 1e-9);
}

TEST(Timeline, ChakraReadBackIsTheStepThatWasWritten) {
  for (const Schedule schedule : {Schedule::kSync, Schedule::kOverlap, Schedule::kPipe}) {
    const Timeline timeline = laid_out(schedule, schedule == Schedule::kPipe ? 2 : 1);
    const auto summary = read_chakra(to_chakra(timeline));
    ASSERT_TRUE(summary.has_value()) << summary.error().what;
    EXPECT_NEAR(summary->bytes, 4e6, 1);
    EXPECT_NEAR(summary->compute_s, 0.12, 1e-5);
    EXPECT_NEAR(summary->communication_s, 0.04, 1e-5);
    EXPECT_EQ(summary->operations, schedule == Schedule::kOverlap ? 4 : 1);
    EXPECT_NEAR(summary->step_s, timeline.step_s, 1e-5) << name_of(schedule);
  }
}

TEST(Timeline, NothingDependsOnWhatComesAfterIt) {
  for (const Schedule schedule : {Schedule::kSync, Schedule::kOverlap, Schedule::kPriority}) {
    const Timeline timeline = laid_out(schedule);
    for (size_t i = 0; i < timeline.events.size(); ++i) {
      for (const size_t before : timeline.events[i].after) {
        ASSERT_LT(before, i);
        EXPECT_LE(timeline.events[before].start_s + timeline.events[before].duration_s,
                  timeline.events[i].start_s + 1e-12);
      }
    }
  }
}

/// Slices of a lane that overlap, in Perfetto's JSON.
int overlaps_in(const std::string& json) {
  std::map<int, std::vector<std::pair<double, double>>> lanes;
  const auto trace = nlohmann::json::parse(json);
  for (const auto& event : trace.at("traceEvents")) {
    if (event.at("ph") != "X") continue;
    const double start = event.at("ts"), duration = event.at("dur");
    lanes[event.at("tid")].emplace_back(start, start + duration);
  }
  int overlaps = 0;
  for (auto& [lane, slices] : lanes) {
    std::sort(slices.begin(), slices.end());
    for (size_t i = 1; i < slices.size(); ++i) {
      overlaps += slices[i].first < slices[i - 1].second - 1e-3;
    }
  }
  return overlaps;
}

TEST(Timeline, SlicesOfALaneNeverOverlap) {
  for (const double network : {0.1, 1.0, 10.0}) {
    Calibration c = links();
    c.up_s_per_byte = c.down_s_per_byte = network * 1e-8;
    c.alpha_s = 0.01;  // Over a long path, sums are under way side by side.
    StepShape step = even_step(4e6, 0.12, 4);
    step.update_s = 0.01;
    for (const auto& [schedule, collective, width] :
         {std::tuple(Schedule::kSync, Collective::kInNetwork, 1u),
          std::tuple(Schedule::kOverlap, Collective::kInNetwork, 1u),
          std::tuple(Schedule::kPriority, Collective::kInNetwork, 1u),
          std::tuple(Schedule::kPipe, Collective::kInNetwork, 4u),
          std::tuple(Schedule::kAsync, Collective::kServer, 1u)}) {
      const Mode mode{schedule, collective, WireFormat::kNative, width};
      EXPECT_EQ(overlaps_in(to_perfetto(timeline_of(c, step, kFour, mode), 4)), 0)
          << describe(mode) << ", network " << network;
    }
  }
}

TEST(Timeline, WithPriorityALayersForwardWaitsForItsOwnSumOnly) {
  const Timeline timeline = laid_out(Schedule::kPriority);
  const auto at = [&](const std::string& name) {
    return *std::ranges::find(timeline.events, name, &TimelineEvent::name);
  };
  EXPECT_EQ(at("backward 3").start_s, 0);
  EXPECT_GT(at("forward 0").start_s, at("backward 0").start_s);
  EXPECT_NEAR(at("forward 3").start_s + at("forward 3").duration_s, timeline.step_s, 1e-9);
}

TEST(Chakra, BytesAreThoseOfTheSchema) {
  Timeline timeline;
  timeline.events = {{"ab", true, 0, 2e-6, 8, {}}};
  // Metadata: field 1 "0.0.4". Node: id 0, name "ab", type 7, start 0, duration 2, then three
  // attributes: is_cpu_op = false (27), comm_type = 0 (13), comm_size = 8 (13).
  const std::string expected = std::string(
                                   "\x07\x0A\x05"
                                   "0.0.4",
                                   8) +
                               std::string(
                                   "\x36\x08\x00\x12\x02"
                                   "ab\x18\x07\x30\x00\x38\x02",
                                   13) +
                               std::string("\x52\x0E\x0A\x09is_cpu_op\xD8\x01\x00", 16) +
                               std::string(
                                   "\x52\x0D\x0A\x09"
                                   "comm_type\x68\x00",
                                   15) +
                               std::string(
                                   "\x52\x0D\x0A\x09"
                                   "comm_size\x68\x08",
                                   15);
  std::string fixed = expected;
  fixed[8] = static_cast<char>(expected.size() - 9);
  EXPECT_EQ(to_chakra(timeline), fixed);
}

/// A trace of one collective node, id 9, whose comm_size attribute is these bytes.
std::string trace_with_size(const std::string& value) {
  const auto with_size = [](const std::string& message) {
    return static_cast<char>(message.size()) + message;
  };
  const std::string attribute =
      "\x0A\x09"
      "comm_size" +
      value;
  return with_size(
             "\x0A\x05"
             "0.0.4") +
         with_size("\x08\x09\x18\x07\x38\x02\x52" + with_size(attribute));
}

TEST(Chakra, ASizeThatCannotBeIsOneLineWithItsNode) {
  const std::string ones(9, '\xFF');
  EXPECT_TRUE(read_chakra(trace_with_size("\x48\x08")).has_value()) << "int64 8";
  const auto zigzag = read_chakra(trace_with_size("\x88\x01\x08"));
  ASSERT_TRUE(zigzag.has_value()) << "sint64 4";
  EXPECT_EQ(zigzag->bytes, 4);
  const std::pair<std::string, std::string> bad[] = {
      {"\x48" + ones + "\x01", "node 9: comm_size is -1"},     // int64
      {"\x38" + ones + "\x01", "node 9: comm_size is -1"},     // int32
      {"\x68" + ones + "\x01", "node 9: comm_size is 18446"},  // uint64
      {"\x88\x01\x01", "node 9: comm_size is -1"},             // sint64
      {"\x2D"
       "abcd",
       "node 9: comm_size is not an integer"},  // float
      {"", "node 9: comm_size is not an integer"},
  };
  for (const auto& [value, complaint] : bad) {
    const auto summary = read_chakra(trace_with_size(value));
    ASSERT_FALSE(summary.has_value()) << complaint;
    EXPECT_NE(summary.error().what.find(complaint), std::string::npos) << summary.error().what;
    EXPECT_EQ(summary.error().what.find('\n'), std::string::npos);
  }
}

TEST(Chakra, WhatIsNoTraceIsOneClearLine) {
  const std::string good = to_chakra(laid_out(Schedule::kSync));
  for (const std::string& bytes :
       {std::string(), std::string("hello"), std::string(100, '\xFF'), good.substr(0, 8),
        good.substr(0, good.size() - 3), std::string("\x00\x02\x1A\xFF", 4)}) {
    const auto summary = read_chakra(bytes);
    ASSERT_FALSE(summary.has_value());
    EXPECT_EQ(summary.error().what.find('\n'), std::string::npos);
    EXPECT_NE(summary.error().what.find("Chakra"), std::string::npos);
  }
}

}  // namespace
}  // namespace sumcast::plan
