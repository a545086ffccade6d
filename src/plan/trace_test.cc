#include "plan/trace.h"

#include <gtest/gtest.h>

#include <string>

namespace sumcast::plan {
namespace {

const char* const kTrace = R"({"schemaVersion": 1, "traceEvents": [
  {"ph": "M", "name": "process_name", "pid": 7, "args": {"name": "python"}},
  {"ph": "X", "name": "ProfilerStep#1", "pid": 7, "tid": 1, "ts": 1000, "dur": 100000},
  {"ph": "X", "name": "ProfilerStep#2", "pid": 7, "tid": 1, "ts": 101000, "dur": 110000},
  {"ph": "X", "name": "aten::mm", "pid": 7, "tid": 1, "ts": 2000, "dur": 70000},
  {"ph": "X", "name": "record_param_comms", "pid": 7, "tid": 2, "ts": 50000, "dur": 20000,
   "args": {"Collective name": "allreduce", "In msg nelems": 1000000, "dtype": "Float"}},
  {"ph": "X", "name": "record_param_comms", "pid": 7, "tid": 2, "ts": 60000, "dur": 30000,
   "args": {"Collective name": "allreduce", "In msg nelems": 500000, "dtype": "Float"}},
  {"ph": "X", "name": "record_param_comms", "pid": 7, "tid": 2, "ts": 90000, "dur": 5000,
   "args": {"Collective name": "broadcast", "In msg nelems": 77, "dtype": "Float"}},
  {"ph": "X", "name": "record_param_comms", "pid": 7, "tid": 2, "ts": 150000, "dur": 50000,
   "args": {"Collective name": "allreduce", "In msg nelems": 1500000, "dtype": "Half"}}
]})";

TEST(Trace, StepsComputingAndBytesAreRead) {
  const auto summary = read_trace(kTrace);
  ASSERT_TRUE(summary.has_value()) << summary.error().what;
  EXPECT_EQ(summary->steps, 2);
  EXPECT_NEAR(summary->step_s, 0.11, 1e-9);     // The upper of two.
  EXPECT_NEAR(summary->compute_s, 0.06, 1e-9);  // 100 - (50..90), 110 - 50.
  EXPECT_NEAR(summary->communication_s, 0.05, 1e-9);
  EXPECT_EQ(summary->bytes, 6e6);
  EXPECT_EQ(summary->operations, 2);
}

TEST(Trace, WithoutMarkedStepsAllOfItIsOne) {
  const auto summary = read_trace(R"([
    {"ph": "X", "name": "nccl:all_reduce", "pid": 1, "ts": 10, "dur": 40,
     "args": {"In msg nelems": 10}},
    {"ph": "X", "name": "aten::mm", "pid": 1, "ts": 0, "dur": 100}])");
  ASSERT_TRUE(summary.has_value()) << summary.error().what;
  EXPECT_NEAR(summary->step_s, 1e-4, 1e-12);
  EXPECT_NEAR(summary->compute_s, 6e-5, 1e-12);
}

TEST(Trace, WhatIsNotOneGetsOneClearLine) {
  struct Case {
    const char* text;
    const char* says;
  };
  for (const Case& bad :
       {Case{"", "not JSON"}, Case{"ELF\x01", "not JSON"}, Case{"{\"a\": 1}", "no traceEvents"},
        Case{"{\"traceEvents\": 3}", "not an array"}, Case{"[1]", "event 0 is not an object"},
        Case{R"([{"ph": "X", "name": "x"}])", "no numeric ts and dur"},
        Case{R"([{"ph": "X", "name": "x", "ts": "1", "dur": 2}])", "no numeric ts and dur"},
        Case{R"([{"ph": "X", "name": "x", "ts": 1, "dur": -2}])", "negative duration"},
        Case{"[]", "no all-reduce"}, Case{"42", "not an array"},
        Case{R"([{"ph": "X", "name": "x", "ts": 1, "dur": 2}])", "no all-reduce"}}) {
    const auto summary = read_trace(bad.text);
    ASSERT_FALSE(summary.has_value()) << bad.text;
    EXPECT_EQ(summary.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(summary.error().what.find(bad.says), std::string::npos) << summary.error().what;
    EXPECT_EQ(summary.error().what.find('\n'), std::string::npos);
  }
}

TEST(Trace, EveryPrefixOfOneIsAnErrorNotACrash) {
  const std::string whole = kTrace;
  for (size_t length = 0; length < whole.size(); length += 7) {
    EXPECT_FALSE(read_trace(std::string_view(whole).substr(0, length)).has_value());
  }
}

}  // namespace
}  // namespace sumcast::plan
