// Watches a pipelined run and says when the delay does harm: then all ranks go on synchronously.
//
// It sees reduced values only - the mean loss over ranks, and the angle between successive mean
// gradients - so every rank's guard says the same at the same step, and nobody has to be told. Two
// signs count: the smoothed loss stays well above the lowest it has been, or gradients keep
// pointing back where the last one came from. A loss or a gradient that is no number counts at
// once. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace sumcast::pipeline {

struct GuardOptions {
  double smoothing = 0.1;       ///< Weight of a new value in the moving averages; (0, 1].
  double loss_factor = 1.5;     ///< Above this multiple of the lowest smoothed loss is bad; > 1.
  double alignment_min = -0.3;  ///< A smoothed cosine below it is bad; -1..1.
  uint32_t patience = 20;       ///< Bad steps in a row before it gives up.
  uint32_t settle = 20;         ///< Steps at the start that are only looked at.
};

/// One step's reduced values.
struct Observation {
  double loss = 0;       ///< Mean over ranks.
  double alignment = 0;  ///< Cosine of this mean gradient and the one before, -1..1; NaN if either
                         ///< is not finite.
};

/// All of it, so that a checkpoint can hold it.
struct GuardState {
  double loss = 0, lowest = 0, alignment = 0;  ///< Smoothed; `lowest` of the smoothed losses.
  uint32_t seen = 0, bad = 0;
};

class Guard {
 public:
  explicit Guard(const GuardOptions& options) : options_(options) {}

  /// Why to fall back to K = 1, if so; a clause for people.
  std::optional<std::string> observe(const Observation& at);

  const GuardState& state() const { return state_; }
  void restore(const GuardState& state) { state_ = state; }

 private:
  GuardOptions options_;
  GuardState state_;
};

}  // namespace sumcast::pipeline
