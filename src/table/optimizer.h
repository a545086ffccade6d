// How one row of a sparse table moves when its gradient is known.
//
// One function for everybody who holds rows: servers for cold keys, workers for hot ones. The same
// row, state and gradient give the same bits everywhere: only f32 additions, multiplications,
// divisions and square roots in a fixed order, which IEEE 754 rounds alike on all machines (no pow,
// no fused operations; docs/numerics.md N23).
//
// A row is updated only in rounds that touched it ("lazy"): momentum and Adam's averages do not
// decay in between, as in the sparse optimisers of the frameworks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace sumcast::table {

enum class OptimizerKind : uint8_t {
  kSgd = 0,
  kMomentum = 1,        ///< v = m v + g; w -= rate v.
  kAdagrad = 2,         ///< s += g^2; w -= rate g / (sqrt(s) + epsilon). Duchi, Hazan, Singer 2011.
  kRowwiseAdagrad = 3,  ///< One s per row: the mean of g^2.
  kAdam = 4,            ///< Kingma, Ba 2015; steps are counted per row.
  kFtrl = 5,            ///< FTRL-proximal with L1 and L2. McMahan and others 2013.
};
std::string_view name_of(OptimizerKind kind);  ///< "sgd", "momentum", "adagrad", ...
std::optional<OptimizerKind> optimizer_from_name(std::string_view name);
/// All names, for messages: "sgd, momentum, ...".
std::string optimizer_names();

struct Optimizer {
  OptimizerKind kind = OptimizerKind::kSgd;
  float rate = 0.01f;     ///< FTRL: alpha.
  float momentum = 0.9f;  ///< kMomentum.
  float beta1 = 0.9f;     ///< kAdam.
  float beta2 = 0.999f;   ///< kAdam.
  float epsilon = 1e-8f;  ///< kAdagrad, kRowwiseAdagrad, kAdam.
  float beta = 1.0f;      ///< kFtrl.
  float l1 = 0.0f;        ///< kFtrl.
  float l2 = 0.0f;        ///< kFtrl.
  float initial = 0.0f;   ///< Of Adagrad's and FTRL's sums of squares.

  /// What is wrong with it, if something is.
  Result<void> validate() const;
  /// f32 lanes of state beside a row of `width` lanes.
  size_t state_lanes(size_t width) const;
  /// A new row's state: `state_lanes(width)` lanes.
  void reset(float* state, size_t width) const;
  /// Moves a row by one round's gradient.
  ///
  /// @param row, gradient  `width` lanes; no overlap.
  /// @param state          `state_lanes(width)` lanes.
  void step(float* row, float* state, const float* gradient, size_t width) const;
};

}  // namespace sumcast::table
