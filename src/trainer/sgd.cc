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

void Sgd::update(pipeline::ConstParameters in, std::span<const float> gradient,
                 pipeline::UpdateTime at, pipeline::Parameters out) const {
  const float momentum = momentum_;  // Members might change with what is written (update_rule.h).
  // Element by element, also in place: nothing that is written is read again.
#pragma GCC ivdep
  for (size_t i = 0; i < gradient.size(); ++i) {
    const float velocity = momentum * in.planes[0][i] + gradient[i];
    out.planes[0][i] = velocity;
    out.weights[i] = in.weights[i] - at.rate * velocity;
  }
}

}  // namespace sumcast::trainer
