#include "pipeline/guard.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace sumcast::pipeline {

std::optional<std::string> Guard::observe(const Observation& at) {
  if (!std::isfinite(at.loss)) return "the mean loss is not a number any more";
  if (!std::isfinite(at.alignment)) return "the mean gradient is not finite any more";
  const bool first = state_.seen == 0;
  const auto blend = [&](double old, double now) {
    return first ? now : old + options_.smoothing * (now - old);
  };
  state_.loss = blend(state_.loss, at.loss);
  state_.alignment = blend(state_.alignment, at.alignment);
  state_.lowest = first ? state_.loss : std::min(state_.lowest, state_.loss);
  ++state_.seen;
  if (state_.seen <= options_.settle) return std::nullopt;
  const bool rising = state_.loss > options_.loss_factor * state_.lowest;
  const bool turning = state_.alignment < options_.alignment_min;
  state_.bad = rising || turning ? state_.bad + 1 : 0;
  if (state_.bad < options_.patience) return std::nullopt;
  if (rising) {
    return fmt::format(
        "the smoothed loss, {:.4g}, has been above {:.3g} times its lowest for {} steps",
        state_.loss, options_.loss_factor, state_.bad);
  }
  return fmt::format("gradients have pointed back (mean cosine {:.2f}) for {} steps",
                     state_.alignment, state_.bad);
}

}  // namespace sumcast::pipeline
