#include "cli/pipe_forecast.h"

#include <algorithm>

#include "base/assert.h"

namespace sumcast::cli {

using plan::Schedule;

void PipeComputing::add(const plan::Mode& kind, const PipeAnswer& measured) {
  measured_[{kind.width, kind.packing}].push_back(measured);
}

PipeAnswer PipeComputing::of(const plan::Mode& mode) const {
  auto found = measured_.find({mode.width, mode.packing});
  if (found == measured_.end()) found = measured_.find({1, plan::Packing::kNone});
  SUMCAST_ASSERT(found != measured_.end());
  PipeAnswer mean = joined(found->second);
  if (mode.packing == plan::Packing::kNone && found->first.first == mode.width) {
    mean.step_s = on_the_line_s(mode.width).value_or(mean.step_s);
  }
  return mean;
}

/// By least squares. Nothing for K = 1, nor where fewer than three widths could be at fault.
std::optional<double> PipeComputing::on_the_line_s(uint32_t width) const {
  std::vector<std::pair<double, double>> points;  // Width and seconds.
  for (const auto& [kind, answers] : measured_) {
    if (kind.first < 2 || kind.second != plan::Packing::kNone) continue;
    points.emplace_back(kind.first, joined(answers).step_s);
  }
  if (width < 2 || points.size() < 3) return std::nullopt;
  const auto count = static_cast<double>(points.size());
  double x = 0, y = 0, xx = 0, xy = 0;
  for (const auto& [at, seconds] : points) {
    x += at / count;
    y += seconds / count;
  }
  for (const auto& [at, seconds] : points) {
    xx += (at - x) * (at - x);
    xy += (at - x) * (seconds - y);
  }
  return y + std::max(0.0, xy / xx) * (width - x);
}

std::vector<plan::Mode> computing_kinds(const std::vector<plan::Mode>& modes) {
  std::vector<plan::Mode> kinds;
  for (const plan::Mode& mode : modes) {
    const bool known = std::ranges::any_of(kinds, [&](const plan::Mode& kind) {
      return kind.width == mode.width && kind.packing == mode.packing;
    });
    if (known) continue;
    plan::Mode kind = mode;
    kind.schedule = mode.width == 1 ? Schedule::kSync : Schedule::kPipe;
    kinds.push_back(kind);
  }
  return kinds;
}

plan::StepShape shape_for(const PipeCalibration& calibration, const plan::Mode& mode) {
  const PipeAnswer alone = calibration.computing.of(mode);
  plan::StepShape shape{alone.layers, 0};
  shape.update_s = std::max(0.0, alone.step_s - shape.forward_s() - shape.backward_s());
  return shape;
}

plan::Prediction forecast(const PipeCalibration& calibration, const plan::Mode& mode,
                          uint32_t workers) {
  const plan::StepShape shape = shape_for(calibration, mode);
  const plan::Setting setting{workers, shape.bytes() / kBucketsPerModel};
  plan::Calibration network = calibration.network;
  network.compute_jitter = calibration.computing.of(mode).deviation;
  return plan::predict(network, shape, setting, mode);
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
