#include "cli/pipe_forecast.h"

#include <algorithm>

namespace sumcast::cli {

using plan::Schedule;

plan::StepShape shape_for(const PipeCalibration& calibration, const plan::Mode& mode) {
  const auto piped = calibration.alone_pipe.find(mode.width);
  const bool pipe = mode.schedule == Schedule::kPipe && piped != calibration.alone_pipe.end();
  const PipeAnswer& alone = pipe ? piped->second : calibration.alone_sync;
  plan::StepShape shape{alone.layers, 0};
  shape.update_s = std::max(0.0, alone.step_s - shape.forward_s() - shape.backward_s());
  return shape;
}

plan::Prediction forecast(const PipeCalibration& calibration, const plan::Mode& mode,
                          uint32_t workers) {
  const plan::StepShape shape = shape_for(calibration, mode);
  const plan::Setting setting{workers, shape.bytes() / kBucketsPerModel};
  return plan::predict(calibration.network, shape, setting, mode);
}

std::vector<size_t> order_for(const PipeCalibration& calibration, const plan::Mode& mode,
                              uint32_t workers) {
  if (mode.schedule != Schedule::kPriority) return {};
  const plan::StepShape shape = shape_for(calibration, mode);
  const auto link = [&](double bytes) {
    const plan::Cost cost =
        plan::cost_of(calibration.network, mode.collective, mode.wire, workers, bytes);
    return plan::LinkTime{cost.latency_s, cost.occupancy_s};
  };
  return plan::overlap_step(shape, link, true, shape.bytes() / kBucketsPerModel).order;
}

}  // namespace sumcast::cli
