#include "table/optimizer.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <utility>

namespace sumcast::table {
namespace {

struct Name {
  OptimizerKind kind;
  std::string_view text;
};
constexpr std::array<Name, 6> kNames = {{
    {OptimizerKind::kSgd, "sgd"},
    {OptimizerKind::kMomentum, "momentum"},
    {OptimizerKind::kAdagrad, "adagrad"},
    {OptimizerKind::kRowwiseAdagrad, "rowwise-adagrad"},
    {OptimizerKind::kAdam, "adam"},
    {OptimizerKind::kFtrl, "ftrl"},
}};

// Optimizers by value: behind a reference they might be changed by what is written, for all that
// the compiler knows, and then loops are not vectorised.

void step_sgd(const Optimizer o, float* row, const float* g, size_t width) {
  for (size_t i = 0; i < width; ++i) row[i] -= o.rate * g[i];
}

void step_momentum(const Optimizer o, float* row, float* v, const float* g, size_t width) {
  for (size_t i = 0; i < width; ++i) {
    v[i] = o.momentum * v[i] + g[i];
    row[i] -= o.rate * v[i];
  }
}

void step_adagrad(const Optimizer o, float* row, float* s, const float* g, size_t width) {
  for (size_t i = 0; i < width; ++i) {
    s[i] += g[i] * g[i];
    row[i] -= o.rate * g[i] / (std::sqrt(s[i]) + o.epsilon);
  }
}

void step_rowwise_adagrad(const Optimizer o, float* row, float* s, const float* g, size_t width) {
  float squares = 0.0f;
  for (size_t i = 0; i < width; ++i) squares += g[i] * g[i];
  s[0] += squares / static_cast<float>(width);
  const float scale = o.rate / (std::sqrt(s[0]) + o.epsilon);
  for (size_t i = 0; i < width; ++i) row[i] -= scale * g[i];
}

/// state: m[width], v[width], beta1^t, beta2^t.
void step_adam(const Optimizer o, float* row, float* state, const float* g, size_t width) {
  float* m = state;
  float* v = state + width;
  float* powers = state + 2 * width;
  powers[0] *= o.beta1;
  powers[1] *= o.beta2;
  const float scale1 = 1.0f - powers[0];
  const float scale2 = 1.0f - powers[1];
  for (size_t i = 0; i < width; ++i) {
    m[i] = o.beta1 * m[i] + (1.0f - o.beta1) * g[i];
    v[i] = o.beta2 * v[i] + (1.0f - o.beta2) * g[i] * g[i];
    row[i] -= o.rate * (m[i] / scale1) / (std::sqrt(v[i] / scale2) + o.epsilon);
  }
}

/// state: z[width], n[width].
void step_ftrl(const Optimizer o, float* row, float* state, const float* g, size_t width) {
  float* z = state;
  float* n = state + width;
  for (size_t i = 0; i < width; ++i) {
    const float grown = n[i] + g[i] * g[i];
    const float root = std::sqrt(grown);
    const float sigma = (root - std::sqrt(n[i])) / o.rate;
    z[i] += g[i] - sigma * row[i];
    n[i] = grown;
    const float shrunk = std::fabs(z[i]) - o.l1;
    const float curvature = (o.beta + root) / o.rate + o.l2;
    row[i] = shrunk <= 0.0f ? 0.0f : -std::copysign(shrunk, z[i]) / curvature;
  }
}

}  // namespace

std::string_view name_of(OptimizerKind kind) { return kNames[static_cast<size_t>(kind)].text; }

std::optional<OptimizerKind> optimizer_from_name(std::string_view name) {
  for (const Name& one : kNames) {
    if (one.text == name) return one.kind;
  }
  return std::nullopt;
}

std::string optimizer_names() {
  std::string all;
  for (const Name& one : kNames) {
    if (!all.empty()) all += ", ";
    all += one.text;
  }
  return all;
}

Result<void> Optimizer::validate() const {
  const auto refuse = [](std::string_view field, float value, std::string_view range) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("optimizer: {} is {}; it must be {}", field, value, range));
  };
  if (!(rate > 0.0f) || !std::isfinite(rate)) return refuse("rate", rate, "above 0");
  if (!(momentum >= 0.0f && momentum < 1.0f)) return refuse("momentum", momentum, "in [0, 1)");
  if (!(beta1 >= 0.0f && beta1 < 1.0f)) return refuse("beta1", beta1, "in [0, 1)");
  if (!(beta2 >= 0.0f && beta2 < 1.0f)) return refuse("beta2", beta2, "in [0, 1)");
  // Zero would divide zero by zero where a lane has had no gradient yet.
  if (!(epsilon > 0.0f) || !std::isfinite(epsilon)) return refuse("epsilon", epsilon, "above 0");
  const std::pair<std::string_view, float> others[] = {
      {"beta", beta}, {"l1", l1}, {"l2", l2}, {"initial", initial}};
  for (const auto& [field, value] : others) {
    if (!(value >= 0.0f) || !std::isfinite(value)) return refuse(field, value, "0 or more");
  }
  return {};
}

size_t Optimizer::state_lanes(size_t width) const {
  switch (kind) {
    case OptimizerKind::kSgd:
      return 0;
    case OptimizerKind::kMomentum:
    case OptimizerKind::kAdagrad:
      return width;
    case OptimizerKind::kRowwiseAdagrad:
      return 1;
    case OptimizerKind::kAdam:
      return 2 * width + 2;
    case OptimizerKind::kFtrl:
      return 2 * width;
  }
  return 0;
}

void Optimizer::reset(float* state, size_t width) const {
  const size_t lanes = state_lanes(width);
  for (size_t i = 0; i < lanes; ++i) state[i] = 0.0f;
  if (kind == OptimizerKind::kAdam) state[2 * width] = state[2 * width + 1] = 1.0f;
  if (kind == OptimizerKind::kAdagrad || kind == OptimizerKind::kRowwiseAdagrad) {
    for (size_t i = 0; i < lanes; ++i) state[i] = initial;
  }
  if (kind == OptimizerKind::kFtrl) {
    for (size_t i = width; i < lanes; ++i) state[i] = initial;
  }
}

void Optimizer::step(float* row, float* state, const float* gradient, size_t width) const {
  switch (kind) {
    case OptimizerKind::kSgd:
      return step_sgd(*this, row, gradient, width);
    case OptimizerKind::kMomentum:
      return step_momentum(*this, row, state, gradient, width);
    case OptimizerKind::kAdagrad:
      return step_adagrad(*this, row, state, gradient, width);
    case OptimizerKind::kRowwiseAdagrad:
      return step_rowwise_adagrad(*this, row, state, gradient, width);
    case OptimizerKind::kAdam:
      return step_adam(*this, row, state, gradient, width);
    case OptimizerKind::kFtrl:
      return step_ftrl(*this, row, state, gradient, width);
  }
}

}  // namespace sumcast::table
