// Predicted step times of every way to train, and which one to take.
//
// A mode is schedule x algorithm x wire type x width. Each prediction is an interval: its ends are
// the same model with computing and network both two deviations faster or slower, because a model
// that prints one number invites trust that it has not earned. The advice takes the fastest mode;
// among those within 3 % of it, the simplest: fewer steps of delay, then an unrounded wire, then
// less to install. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/cost.h"
#include "plan/timing.h"

namespace sumcast::plan {

struct Mode {
  Schedule schedule = Schedule::kSync;
  Collective collective = Collective::kRing;
  WireFormat wire = WireFormat::kNative;
  uint32_t width = 1;                ///< K; 1 for all schedules but kPipe.
  Packing packing = Packing::kNone;  ///< Another one only with Collective::kGather.

  bool operator==(const Mode&) const = default;
};

/// "pipe K=2, in-network, bf16".
std::string describe(const Mode& mode);
/// "native", "bf16", ..., "top-k", "qsgd".
std::string_view payload_name(const Mode& mode);

struct Prediction {
  Mode mode;
  double step_s = 0;
  double low_s = 0, high_s = 0;  ///< Computing and network two deviations faster, slower.
  double idle_share = 0;         ///< Of the step, what the compute thread waits.
};

/// Among how many, and in what buckets.
struct Setting {
  uint32_t workers = 2;
  double bucket_bytes = kBucketBytes;
};

Prediction predict(const Calibration& calibration, const StepShape& step, const Setting& setting,
                   const Mode& mode);

/// Which modes are on offer.
struct Choices {
  std::vector<Collective> collectives = {Collective::kInNetwork, Collective::kDirect,
                                         Collective::kRing, Collective::kServer};
  std::vector<WireFormat> wires = {WireFormat::kNative, WireFormat::kBF16, WireFormat::kInt8};
  uint32_t width_max = 4;  ///< Pipelines of K = 2 up to this.
};
/// Every combination that exists, simplest first. The server is synchronous or asynchronous only.
std::vector<Mode> modes_of(const Choices& choices);

struct Advice {
  std::vector<Prediction> predictions;  ///< In the order of modes_of().
  size_t best = 0;                      ///< Index into it.
  std::string reason;                   ///< One or two sentences.
};
/// @param allow_stale  false: only schedules whose gradients are fresh (not pipe, not async).
Advice advise(const Calibration& calibration, const StepShape& step, const Setting& setting,
              const std::vector<Mode>& modes, bool allow_stale = true);

}  // namespace sumcast::plan
