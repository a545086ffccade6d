// A predicted step laid out in time, and the two formats in which other tools read it.
//
//   Perfetto   JSON of trace events, which ui.perfetto.dev and chrome://tracing open, and
//              read_trace() reads back: sums are "record_param_comms" events, as a profiler of
//              PyTorch writes them
//   Chakra     MLCommons' execution trace (chakra.h)
//
// Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/advice.h"

namespace sumcast::plan {

struct TimelineEvent {
  std::string name;
  bool sum = false;  ///< A sum under way; else computing.
  double start_s = 0, duration_s = 0;
  double bytes = 0;           ///< Of a sum, as f32.
  std::vector<size_t> after;  ///< Events of the same step that must have ended.
};

struct Timeline {
  std::vector<TimelineEvent> events;  ///< Of one step, in an order in which they can be run.
  double step_s = 0;                  ///< As predict() has it.
};

/// One step of the mode in its steady state. Under a pipeline the sum is that of the step before;
/// with priority a step goes from one start of backward to the next.
Timeline timeline_of(const Calibration& calibration, const StepShape& step, const Setting& setting,
                     const Mode& mode);

/// `steps` of them, one after the other. No two slices of one lane overlap.
std::string to_perfetto(const Timeline& timeline, int steps = 3);

}  // namespace sumcast::plan
