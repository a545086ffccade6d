// Predictions of `sumcast bench pipeline`, from computing alone and probes alone: no cell of the
// bench goes into them. Pure.
#pragma once

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "cli/pipe_cell.h"

namespace sumcast::cli {

/// Steps without sums, measured several times: a machine's speed drifts by some per cent, and all
/// predictions of a model rest on the mean. Kinds are the modes that compute differently: one of
/// K = 1, and for each width and packing one that copies, forecasts and encodes as well.
class PipeComputing {
 public:
  void add(const plan::Mode& kind, const PipeAnswer& measured);
  /// The mean of what was added for the mode's kind, else of K = 1; something was. Of pipelines the
  /// step is what a straight line through all widths says, for they differ by one forecast for each
  /// gradient under way: single widths, measured one after the other, differ by more.
  PipeAnswer of(const plan::Mode& mode) const;

 private:
  std::optional<double> on_the_line_s(uint32_t width) const;

  using Kind = std::pair<uint32_t, plan::Packing>;  ///< Width and packing.
  std::map<Kind, std::vector<PipeAnswer>> measured_;
};

/// One mode of each kind that occurs among `modes`.
std::vector<plan::Mode> computing_kinds(const std::vector<plan::Mode>& modes);

/// What was measured without any training over the network.
struct PipeCalibration {
  PipeComputing computing;
  plan::Calibration network;  ///< Lines of one rate.
};

/// The model's step in a mode: layers as measured, and whatever else a step computes as its update.
plan::StepShape shape_for(const PipeCalibration& calibration, const plan::Mode& mode);

plan::Prediction forecast(const PipeCalibration& calibration, const plan::Mode& mode,
                          uint32_t workers);

/// The order in which all ranks start their sums; empty for all modes but priority.
std::vector<size_t> order_for(const PipeCalibration& calibration, const plan::Mode& mode,
                              uint32_t workers);

}  // namespace sumcast::cli
