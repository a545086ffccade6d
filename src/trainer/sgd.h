// Stochastic gradient descent with momentum, and the rate it steps with.
//
// All ranks hold the same weights and are given the same averaged gradient, so they must compute
// the same bits: one multiplication and one addition per element, in one order, nothing else.
#pragma once

#include "pipeline/update_rule.h"

namespace sumcast::trainer {

/// Learning rate of step `step` of `steps`: rises linearly to `peak` over the first `warmup` steps,
/// then falls along half a cosine to zero, which the step after the last would have.
float learning_rate(float peak, int warmup, int step, int steps);

/// velocity = momentum * velocity + gradient; weights -= rate * velocity. One plane: the velocity.
class Sgd final : public pipeline::UpdateRule {
 public:
  /// `momentum` in [0, 1).
  explicit Sgd(float momentum) : momentum_(momentum) {}

  size_t planes() const override { return 1; }
  bool accumulates() const override { return momentum_ > 0.0f; }
  void update(pipeline::ConstParameters in, std::span<const float> gradient,
              pipeline::UpdateTime at, pipeline::Parameters out) const override;

 private:
  float momentum_;
};

}  // namespace sumcast::trainer
