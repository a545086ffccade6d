#include "trainer/adamw.h"

#include <cmath>

namespace sumcast::trainer {

void AdamW::update(pipeline::ConstParameters in, std::span<const float> gradient,
                   pipeline::UpdateTime at, pipeline::Parameters out) const {
  const auto count = static_cast<double>(at.count);
  const Options o = options_;  // Members might change with what is written (update_rule.h).
  const auto bias1 = static_cast<float>(1.0 / (1.0 - std::pow(double{o.beta1}, count)));
  const auto bias2 = static_cast<float>(1.0 / (1.0 - std::pow(double{o.beta2}, count)));
  const float fresh1 = 1.0f - o.beta1, fresh2 = 1.0f - o.beta2;
  // Element by element, also in place: nothing that is written is read again.
#pragma GCC ivdep
  for (size_t i = 0; i < gradient.size(); ++i) {
    const float g = gradient[i];
    const float m = o.beta1 * in.planes[0][i] + fresh1 * g;
    const float v = o.beta2 * in.planes[1][i] + fresh2 * g * g;
    out.planes[0][i] = m;
    out.planes[1][i] = v;
    const float weight = in.weights[i];
    const float direction = m * bias1 / (std::sqrt(v * bias2) + o.epsilon);
    out.weights[i] = weight - at.rate * (direction + o.decay * weight);
  }
}

}  // namespace sumcast::trainer
