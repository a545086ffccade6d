// Predictions of `sumcast bench pipeline`, from computing alone and probes alone: no cell of the
// bench goes into them. Pure.
#pragma once

#include <map>
#include <vector>

#include "cli/pipe_cell.h"

namespace sumcast::cli {

/// What was measured without any training over the network.
struct PipeCalibration {
  PipeAnswer alone_sync;                      ///< Steps of K = 1 without sums.
  std::map<uint32_t, PipeAnswer> alone_pipe;  ///< By K > 1: their steps copy and forecast as well.
  plan::Calibration network;                  ///< Lines of one rate.
};

/// The model's step in a mode: layers as measured, and whatever else a step computes as its update.
plan::StepShape shape_for(const PipeCalibration& calibration, const plan::Mode& mode);

plan::Prediction forecast(const PipeCalibration& calibration, const plan::Mode& mode,
                          uint32_t workers);

/// The order in which all ranks start their sums; empty for all modes but priority.
std::vector<size_t> order_for(const PipeCalibration& calibration, const plan::Mode& mode,
                              uint32_t workers);

}  // namespace sumcast::cli
