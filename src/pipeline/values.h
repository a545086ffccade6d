// Work on whole gradients, written so that it takes what memory takes.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>

namespace sumcast::pipeline {

/// std::isfinite would keep a loop from being vectorised.
inline float finite_or_zero(float value) {
  return std::fabs(value) <= std::numeric_limits<float>::max() ? value : 0.0f;
}

/// Of two runs of `count` values; not finite if one of them is not. In eight sums side by side: one
/// alone would wait for each addition to end. The same bits each time.
inline double dot(const float* a, const float* b, size_t count) {
  std::array<double, 8> sums{};
  size_t i = 0;
  for (; i + sums.size() <= count; i += sums.size()) {
    for (size_t lane = 0; lane < sums.size(); ++lane) {
      sums[lane] += static_cast<double>(a[i + lane]) * b[i + lane];
    }
  }
  for (; i < count; ++i) sums[0] += static_cast<double>(a[i]) * b[i];
  return std::accumulate(sums.begin(), sums.end(), 0.0);
}

}  // namespace sumcast::pipeline
