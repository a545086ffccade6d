#include "trainer/adamw.h"

#include <cmath>

namespace sumcast::trainer {

void AdamW::update(const pipeline::ConstParameters& in, std::span<const float> gradient,
                   pipeline::UpdateTime at, const pipeline::Parameters& out) const {
  const auto count = static_cast<double>(at.count);
  const auto bias1 = static_cast<float>(1.0 / (1.0 - std::pow(double{options_.beta1}, count)));
  const auto bias2 = static_cast<float>(1.0 / (1.0 - std::pow(double{options_.beta2}, count)));
  // Values and pointers of its own: what is written might change those behind references, for all
  // that the compiler knows, and then nothing is vectorised.
  const Options o = options_;
  const size_t parameters = gradient.size();
  const float fresh1 = 1.0f - o.beta1, fresh2 = 1.0f - o.beta2;
  const float *const g = gradient.data(), *const weights = in.weights;
  const float *const first = in.planes[0], *const second = in.planes[1];
  float *const new_weights = out.weights, *const new_first = out.planes[0];
  float* const new_second = out.planes[1];
  // Element by element, also in place: nothing that is written is read again.
#pragma GCC ivdep
  for (size_t i = 0; i < parameters; ++i) {
    const float m = o.beta1 * first[i] + fresh1 * g[i];
    const float v = o.beta2 * second[i] + fresh2 * g[i] * g[i];
    const float weight = weights[i];
    const float direction = m * bias1 / (std::sqrt(v * bias2) + o.epsilon);
    new_first[i] = m;
    new_second[i] = v;
    new_weights[i] = weight - at.rate * (direction + o.decay * weight);
  }
}

}  // namespace sumcast::trainer
