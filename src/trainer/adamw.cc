#include "trainer/adamw.h"

#include <cmath>

namespace sumcast::trainer {

void AdamW::update(const pipeline::ConstParameters& in, std::span<const float> gradient,
                   pipeline::UpdateTime at, const pipeline::Parameters& out) const {
  const auto count = static_cast<double>(at.count);
  const auto bias1 = static_cast<float>(1.0 / (1.0 - std::pow(double{options_.beta1}, count)));
  const auto bias2 = static_cast<float>(1.0 / (1.0 - std::pow(double{options_.beta2}, count)));
  const float fresh1 = 1.0f - options_.beta1, fresh2 = 1.0f - options_.beta2;
  // Element by element, also in place: nothing that is written is read again.
#pragma GCC ivdep
  for (size_t i = 0; i < gradient.size(); ++i) {
    const float g = gradient[i];
    const float m = options_.beta1 * in.planes[0][i] + fresh1 * g;
    const float v = options_.beta2 * in.planes[1][i] + fresh2 * g * g;
    out.planes[0][i] = m;
    out.planes[1][i] = v;
    const float weight = in.weights[i];
    const float direction = m * bias1 / (std::sqrt(v * bias2) + options_.epsilon);
    out.weights[i] = weight - at.rate * (direction + options_.decay * weight);
  }
}

}  // namespace sumcast::trainer
