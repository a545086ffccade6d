// Reads what a profiler recorded of a training program: Kineto's JSON, as torch.profiler exports
// it (Chrome's trace event format).
//
// Wanted are a step's time, how much of it is computing, and how many bytes are summed. Steps are
// the events "ProfilerStep#N" (or, without any, all of the trace is one step); sums are the events
// "record_param_comms", whose arguments name collective, element count and type, or else "nccl:",
// "gloo:" and "sumcast:" events with the same arguments. Computing is what a step's time leaves
// when the union of the sums' spans on the trace's busiest process is taken off. The text comes
// from outside: a wrong type, a missing member or a negative duration is one clear line, never a
// guess.
#pragma once

#include <string_view>

#include "base/result.h"
#include "plan/timing.h"

namespace sumcast::plan {

struct TraceSummary {
  int steps = 0;
  double step_s = 0;           ///< Median over steps.
  double compute_s = 0;        ///< Median of a step's time outside its sums.
  double communication_s = 0;  ///< Median of the sums' spans, overlaps counted once.
  double bytes = 0;            ///< Summed per step, median, as f32.
  int operations = 0;          ///< Per step, median.
};

/// kInvalidArgument if `text` is not such a trace, or records no sums of gradients.
Result<TraceSummary> read_trace(std::string_view text);

}  // namespace sumcast::plan
