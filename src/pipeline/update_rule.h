// What an optimiser does with one gradient, as a pure function of weights, state and gradient.
//
// The pipeline owns weights and state and says how many updates there were, so that it can run the
// very same rule ahead of time ("peek") without a trace: it gives other memory for the results. A
// rule works element by element; any run of parameters can be updated alone.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace sumcast::pipeline {

/// Floats of state per parameter, at most (AdamW has two moments).
inline constexpr size_t kPlanesMax = 2;

/// Weights and state of a run of parameters. Planes beyond the rule's own are null.
struct ConstParameters {
  const float* weights = nullptr;
  std::array<const float*, kPlanesMax> planes{};
};
struct Parameters {
  float* weights = nullptr;
  std::array<float*, kPlanesMax> planes{};
};

/// When an update takes place.
struct UpdateTime {
  float rate = 0.0f;   ///< Learning rate.
  uint64_t count = 1;  ///< Which update of these parameters it is, from 1 (bias corrections).
};

class UpdateRule {
 public:
  virtual ~UpdateRule() = default;

  /// How many planes of state it keeps, all zero before the first update; at most kPlanesMax.
  virtual size_t planes() const = 0;
  /// Whether past gradients keep moving the weights: then a delay costs stability, and prediction
  /// wins more than it costs.
  virtual bool accumulates() const = 0;
  /// Reads `in`, writes `out`, each of gradient.size() elements; `out` may be `in`. Equal inputs
  /// give equal bits on all machines of one kind. By value: behind a reference a pointer might be
  /// changed by what is written, for all that the compiler knows, and then no loop is vectorised.
  virtual void update(ConstParameters in, std::span<const float> gradient, UpdateTime at,
                      Parameters out) const = 0;
};

}  // namespace sumcast::pipeline
