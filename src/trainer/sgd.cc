#include "trainer/sgd.h"

#include <cmath>
#include <numbers>

#include "base/assert.h"

namespace sumcast::trainer {

float learning_rate(float peak, int warmup, int step, int steps) {
  SUMCAST_ASSERT(step >= 0 && step < steps);
  if (step < warmup) return peak * static_cast<float>(step + 1) / static_cast<float>(warmup);
  const double progress = static_cast<double>(step - warmup) / static_cast<double>(steps - warmup);
  return peak * static_cast<float>(0.5 + 0.5 * std::cos(std::numbers::pi * progress));
}

void Sgd::step(std::span<float> weights, std::span<const float> gradient, float rate) {
  SUMCAST_ASSERT(weights.size() == velocity_.size());
  SUMCAST_ASSERT(gradient.size() == velocity_.size());
  float* const velocity = velocity_.data();
  for (size_t i = 0; i < velocity_.size(); ++i) {
    velocity[i] = momentum_ * velocity[i] + gradient[i];
    weights[i] -= rate * velocity[i];
  }
}

}  // namespace sumcast::trainer
