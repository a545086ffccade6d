#include "plan/advice.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "base/assert.h"

namespace sumcast::plan {
namespace {

constexpr double kDeviations = 2;
/// Modes this close to the fastest count as equally fast.
constexpr double kTie = 0.03;

/// The mean of the largest of p samples of a standard normal variable, by Blom's approximation of
/// its quantile: synchronous steps wait for the slowest worker.
double slowest_of(uint32_t p) { return p < 2 ? 0 : normal_quantile((p - 0.375) / (p + 0.25)); }

StepShape scaled(StepShape step, double factor) {
  for (LayerShape& layer : step.layers) {
    layer.forward_s *= factor;
    layer.backward_s *= factor;
  }
  step.update_s *= factor;
  return step;
}

/// The step with `extra_s` more computing in backward, spread as backward is.
StepShape with_backward(StepShape step, double extra_s) {
  const double total = step.backward_s();
  if (total <= 0) return step;
  for (LayerShape& layer : step.layers) layer.backward_s *= 1 + extra_s / total;
  return step;
}

struct Point {
  double step_s = 0;
  double compute_s = 0;  ///< Of it, what the compute thread is busy.
};

/// Of one sum of `bytes` of gradients.
Cost sum_in(const Calibration& calibration, const Setting& setting, const Mode& mode,
            double bytes) {
  return cost_of(calibration, mode.collective, mode.wire, setting.workers,
                 bytes * bytes_per_byte(mode.packing));
}

/// What waiting for others adds to a synchronous step's computing, as a share of it. Asynchronous
/// workers wait for nobody, and what pipelines wait varying.h plays through.
double straggling(const Calibration& calibration, const StepShape& step, const Setting& setting,
                  const Mode& mode) {
  if (mode.schedule == Schedule::kAsync || mode.width > 1) return 0;
  if (calibration.straggling_s && step.compute_s() > 0) {
    return *calibration.straggling_s / step.compute_s();
  }
  return calibration.compute_jitter * slowest_of(setting.workers);
}

/// One prediction with computing and network times multiplied by the given factors.
Point evaluate(const Calibration& calibration, const StepShape& nominal, const Setting& setting,
               const Mode& mode, double compute_factor, double network_factor) {
  const double late = straggling(calibration, nominal, setting, mode);
  const StepShape step = scaled(nominal, compute_factor * (1 + late));
  const auto cost = [&](double bytes) {
    Cost c = sum_in(calibration, setting, mode, bytes);
    c.latency_s *= network_factor;
    c.occupancy_s *= network_factor;
    return c;
  };
  const LinkFn link = [&](double bytes) {
    const Cost c = cost(bytes);
    return LinkTime{c.latency_s, c.occupancy_s, c.drag};
  };
  const Cost whole = cost(step.bytes());
  const double compute = step.compute_s();
  switch (mode.schedule) {
    case Schedule::kSync:
      return {compute + whole.latency_s, compute};
    case Schedule::kOverlap:
    case Schedule::kPriority: {
      const bool priority = mode.schedule == Schedule::kPriority;
      const Overlapped alone = overlap_step(step, link, priority, setting.bucket_bytes);
      const double stolen = whole.stolen_s * alone.hidden_share;
      const StepShape slowed = with_backward(step, stolen);
      return {overlap_step(slowed, link, priority, setting.bucket_bytes).step_s, compute + stolen};
    }
    case Schedule::kPipe: {
      const LinkTime sum{whole.latency_s, whole.occupancy_s, whole.drag, whole.late_s};
      const Variation variation{setting.workers, calibration.compute_jitter,
                                calibration.network_jitter};
      const double step_s = pipelined_step_s(compute, sum, mode.width, whole.stolen_s, variation);
      return {step_s, std::min(step_s, compute + (mode.width > 1 ? whole.stolen_s : 0))};
    }
    case Schedule::kAsync: {
      // A push and a pull of its own, both at once, alone on the server's link at best; all workers
      // share it.
      const double own = own_exchange_s(whole, setting.workers);
      return {std::max(compute + own, whole.occupancy_s), compute};
    }
  }
  return {};
}

/// Smaller is simpler.
auto complexity(const Mode& mode) {
  const bool installs =
      mode.collective == Collective::kInNetwork || mode.collective == Collective::kServer;
  return std::tuple(mode.schedule == Schedule::kAsync, mode.width, mode.wire != WireFormat::kNative,
                    mode.wire == WireFormat::kInt8, installs, mode.schedule == Schedule::kPriority);
}

std::string milliseconds(double seconds) { return fmt::format("{:.4g} ms", seconds * 1e3); }

std::string reason_for(const Prediction& best, const Cost& cost, double compute_s) {
  const std::string facts = fmt::format("computing takes {}, one {} all-reduce ({} wire) {}",
                                        milliseconds(compute_s), name_of(best.mode.collective),
                                        name_of(best.mode.wire), milliseconds(cost.latency_s));
  if (cost.latency_s < 0.1 * compute_s) {
    return facts + ": bound by computing, so that nothing faster than it is worth its price";
  }
  if (best.mode.schedule == Schedule::kPipe && best.mode.width > 2) {
    return facts + fmt::format(", of which the link is busy {}: only a width of {} hides the rest",
                               milliseconds(cost.occupancy_s), best.mode.width);
  }
  if (cost.occupancy_s > compute_s) {
    return facts +
           ": bound by the network, and these are the fewest bytes on the busiest link; "
           "what is left is not hidden by any width";
  }
  if (best.mode.schedule == Schedule::kPipe) {
    return facts + ": it disappears under the computing of the next step";
  }
  if (best.mode.schedule == Schedule::kSync) return facts + ": little is left to hide";
  return facts + ": it hides under backward, without delayed gradients";
}

}  // namespace

std::string describe(const Mode& mode) {
  return fmt::format("{}{}, {}, {}", name_of(mode.schedule),
                     mode.schedule == Schedule::kPipe ? fmt::format(" K={}", mode.width) : "",
                     name_of(mode.collective), payload_name(mode));
}

std::string_view payload_name(const Mode& mode) {
  return mode.packing == Packing::kNone ? name_of(mode.wire) : name_of(mode.packing);
}

Prediction predict(const Calibration& calibration, const StepShape& step, const Setting& setting,
                   const Mode& mode) {
  SUMCAST_ASSERT(mode.width >= 1);
  SUMCAST_ASSERT(setting.workers >= 1);
  const auto at = [&](double deviations) {
    const double compute = std::max(0.05, 1 + deviations * calibration.compute_jitter);
    const double network = std::max(0.05, 1 + deviations * calibration.network_jitter);
    return evaluate(calibration, step, setting, mode, compute, network);
  };
  const Point middle = at(0);
  Prediction result;
  result.mode = mode;
  result.step_s = middle.step_s;
  result.low_s = at(-kDeviations).step_s;
  result.high_s = at(kDeviations).step_s;
  result.idle_share = std::clamp(1 - middle.compute_s / middle.step_s, 0.0, 1.0);
  return result;
}

std::vector<Mode> modes_of(const Choices& choices) {
  std::vector<Mode> modes;
  for (const Collective collective : choices.collectives) {
    for (const WireFormat wire : choices.wires) {
      if (!carries(collective, wire)) continue;
      modes.push_back({Schedule::kSync, collective, wire, 1});
      if (collective == Collective::kServer) {
        if (wire == WireFormat::kNative) modes.push_back({Schedule::kAsync, collective, wire, 1});
        continue;
      }
      modes.push_back({Schedule::kOverlap, collective, wire, 1});
      modes.push_back({Schedule::kPriority, collective, wire, 1});
      for (uint32_t width = 2; width <= choices.width_max; ++width) {
        modes.push_back({Schedule::kPipe, collective, wire, width});
      }
    }
  }
  std::stable_sort(modes.begin(), modes.end(),
                   [](const Mode& a, const Mode& b) { return complexity(a) < complexity(b); });
  return modes;
}

Advice advise(const Calibration& calibration, const StepShape& step, const Setting& setting,
              const std::vector<Mode>& modes, bool allow_stale) {
  SUMCAST_ASSERT(!modes.empty());
  Advice advice;
  const auto eligible = [&](const Mode& mode) {
    return allow_stale || (mode.schedule != Schedule::kPipe && mode.schedule != Schedule::kAsync);
  };
  double fastest = 0;
  for (const Mode& mode : modes) {
    advice.predictions.push_back(predict(calibration, step, setting, mode));
    const double time = advice.predictions.back().step_s;
    if (eligible(mode) && (fastest == 0 || time < fastest)) fastest = time;
  }
  std::optional<size_t> best;
  for (size_t i = 0; i < modes.size(); ++i) {
    if (!eligible(modes[i]) || advice.predictions[i].step_s > fastest * (1 + kTie)) continue;
    if (!best || complexity(modes[i]) < complexity(modes[*best])) best = i;
  }
  SUMCAST_ASSERT(best.has_value());
  advice.best = *best;
  const Prediction& chosen = advice.predictions[*best];
  advice.reason = reason_for(
      chosen,
      cost_of(calibration, chosen.mode.collective, chosen.mode.wire, setting.workers, step.bytes()),
      step.compute_s());
  return advice;
}

}  // namespace sumcast::plan
