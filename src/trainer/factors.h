// Inside the room: what lr, fm and deepfm share. Lane 0 of a row is w, the others are v.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>

#include "trainer/sparse_batch.h"

namespace sumcast::trainer {

using Rows = std::span<const float* const>;

/// Of new rows' factors: small beside what training makes of them.
inline constexpr float kFactorScale = 0.05f;

inline float sigmoid(float z) { return 1.0f / (1.0f + std::exp(-z)); }

/// A score against its label (1 or above, 0 or below).
struct Guess {
  double loss = 0;
  float slope = 0;  ///< The loss's derivative by the score.
};
Guess judge(float score, float label);

/// fm's z; with no factors lr's.
inline float factor_score(std::span<const SparseEntry> sample, Rows rows, uint32_t factors) {
  float z = 0;
  for (const SparseEntry& entry : sample) z += rows[entry.key][0] * entry.value;
  for (uint32_t f = 1; f <= factors; ++f) {
    float sum = 0, squares = 0;
    for (const SparseEntry& entry : sample) {
      const float part = rows[entry.key][f] * entry.value;
      sum += part;
      squares += part * part;
    }
    z += 0.5f * (sum * sum - squares);
  }
  return z;
}

/// Adds `slope` times z's derivative by each row to f32[keys][1 + factors].
inline void add_factor_gradient(std::span<const SparseEntry> sample, Rows rows, uint32_t factors,
                                float slope, float* gradients) {
  const size_t lanes = 1 + factors;
  for (const SparseEntry& entry : sample) gradients[entry.key * lanes] += slope * entry.value;
  for (uint32_t f = 1; f <= factors; ++f) {
    float sum = 0;
    for (const SparseEntry& entry : sample) sum += rows[entry.key][f] * entry.value;
    for (const SparseEntry& entry : sample) {
      gradients[entry.key * lanes + f] +=
          slope * entry.value * (sum - rows[entry.key][f] * entry.value);
    }
  }
}

}  // namespace sumcast::trainer
