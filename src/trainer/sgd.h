// Stochastic gradient descent with momentum, and the rate it steps with.
//
// All ranks hold the same weights and are given the same averaged gradient, so they must compute
// the same bits: one multiplication and one addition per element, in one order, nothing else.
#pragma once

#include <span>
#include <vector>

namespace sumcast::trainer {

/// Learning rate of step `step` of `steps`: rises linearly to `peak` over the first `warmup` steps,
/// then falls along half a cosine to zero, which the step after the last would have.
float learning_rate(float peak, int warmup, int step, int steps);

class Sgd {
 public:
  /// `parameters`: length of the buffers that step() will be given.
  Sgd(size_t parameters, float momentum) : velocity_(parameters, 0.0f), momentum_(momentum) {}

  /// velocity = momentum * velocity + gradient; weights -= rate * velocity.
  void step(std::span<float> weights, std::span<const float> gradient, float rate);

 private:
  std::vector<float> velocity_;
  float momentum_;
};

}  // namespace sumcast::trainer
