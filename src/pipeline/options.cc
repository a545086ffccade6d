#include "pipeline/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace sumcast::pipeline {

std::string_view name_of(Forecast forecast) {
  switch (forecast) {
    case Forecast::kAuto:
      return "auto";
    case Forecast::kNone:
      return "none";
    case Forecast::kPrevious:
      return "previous";
    case Forecast::kLocal:
      return "local";
    case Forecast::kLocalAndPrevious:
      return "local-and-previous";
  }
  return "?";
}

std::string_view name_of(Compensation compensation) {
  switch (compensation) {
    case Compensation::kNone:
      return "none";
    case Compensation::kPlain:
      return "plain";
    case Compensation::kAdaptive:
      return "adaptive";
  }
  return "?";
}

std::vector<std::string> PipelineOptions::validate() const {
  std::vector<std::string> problems;
  const auto require = [&](bool holds, std::string problem) {
    if (!holds) problems.push_back(std::move(problem));
  };
  require(width >= 1 && width <= kWidthMax,
          fmt::format("width must be 1 to {}, not {}", kWidthMax, width));
  require(std::isfinite(compensation_strength) && compensation_strength >= 0.0f,
          fmt::format("compensation_strength must not be negative, is {}", compensation_strength));
  require(correction >= 0.0f && correction <= 1.0f,
          fmt::format("correction must be 0 to 1, not {}", correction));
  require(std::isfinite(clip_norm) && clip_norm >= 0.0f,
          fmt::format("clip_norm must not be negative, is {}", clip_norm));
  if (guard) {
    require(guard->smoothing > 0 && guard->smoothing <= 1,
            fmt::format("guard smoothing must be above 0 and at most 1, not {}", guard->smoothing));
    require(guard->loss_factor > 1,
            fmt::format("guard loss_factor must be above 1, not {}", guard->loss_factor));
    require(guard->patience >= 1, "guard patience must be at least 1");
  }
  if (tune) {
    require(!tune->ways.empty(), "tune ways must name one at least");
    for (size_t i = 1; i < tune->ways.size(); ++i) {
      const auto before = tune->ways.begin() + static_cast<ptrdiff_t>(i);
      require(std::find(tune->ways.begin(), before, tune->ways[i]) == before,
              "tune ways must differ");
    }
    require(tune->first_steps >= 2 && tune->window_steps >= kWidthMax,
            fmt::format("tune windows must have {} steps at least, the first 2", kWidthMax));
    require(tune->patience >= 1, "tune patience must be at least 1");
    require(tune->recheck_windows >= 1, "tune recheck_windows must be at least 1");
  }
  return problems;
}

}  // namespace sumcast::pipeline
