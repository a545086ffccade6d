// What `sumcast plan` was asked, and everything that can be wrong with it.
//
// Reading flags is plan_command's part; this turns them into the planner's numbers, or into one
// line per mistake. No clock, no network.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "plan/advice.h"
#include "plan/trace.h"

namespace sumcast::cli {

struct PlanFlags {
  uint32_t workers = 0;              ///< 2 or more; 0: not given.
  std::string bandwidth;             ///< Of a worker's link, each direction, as "25gbit".
  std::string model_bytes;           ///< Of the gradient as f32, as "100MB" (powers of 1024).
  std::string step_time;             ///< Computing of one step, as "120ms".
  std::string latency = "50us";      ///< One way, a message between two workers.
  std::string aggregator_bandwidth;  ///< Of sumcastd's one port; empty: a port per worker.
  double forward_share = 1.0 / 3;    ///< Of the step's computing.
  uint32_t layers = 16;              ///< Into how many equal layers the model is thought cut.
  uint32_t width = 4;                ///< The largest K to consider.
  uint64_t steps = 0;                ///< Of the run; 0: many.
  bool fresh = false;                ///< No delayed gradients.
  std::string trace;                 ///< File to take step time and bytes from.
  std::string write_perfetto;        ///< Files for the advised step; empty: none.
  std::string write_chakra;
  bool calibrate = false;
  bool json = false;
};

/// All that a plan rests on.
struct PlanRequest {
  plan::Calibration calibration;
  plan::StepShape step;
  plan::Setting setting;
  std::vector<plan::Mode> modes;
  double worker_bits_per_second = 0;  ///< 0 if it was measured, not told.
  bool allow_stale = true;
};

/// What a link carries of payload: 1,408 bytes in a frame of 1,498 (docs/protocol.md).
inline constexpr double kPayloadShare = 1408.0 / 1498.0;

/// @param trace   read from flags.trace, or null.
/// @param probed  measured by --calibrate, or null.
/// Errors: kInvalidArgument, one line that names the flag.
Result<PlanRequest> plan_request(const PlanFlags& flags, const plan::TraceSummary* trace,
                                 const plan::Calibration* probed);

}  // namespace sumcast::cli
