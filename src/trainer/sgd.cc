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

void Sgd::update(const pipeline::ConstParameters& in, std::span<const float> gradient,
                 pipeline::UpdateTime at, const pipeline::Parameters& out) const {
  // Pointers of its own: what is written might change those behind the references, for all that the
  // compiler knows, and then nothing is vectorised.
  const size_t count = gradient.size();
  const float momentum = momentum_;
  const float *const g = gradient.data(), *const weights = in.weights,
                     *const velocity = in.planes[0];
  float *const new_weights = out.weights, *const new_velocity = out.planes[0];
  // Element by element, also in place: nothing that is written is read again.
#pragma GCC ivdep
  for (size_t i = 0; i < count; ++i) {
    const float moved = momentum * velocity[i] + g[i];
    new_velocity[i] = moved;
    new_weights[i] = weights[i] - at.rate * moved;
  }
}

}  // namespace sumcast::trainer
