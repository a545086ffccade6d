// What a pipelined run may choose, and what each choice means for the weights.
//
// w: committed weights, equal on all ranks; g(t): mean gradient of step t; K: width. In step t the
// gradient of step t - K + 1 is applied, so that K - 1 sums travel while the ranks compute.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pipeline/guard.h"
#include "pipeline/tuner.h"

namespace sumcast::pipeline {

inline constexpr uint32_t kWidthMax = 8;

/// Where the next gradient is computed: at the committed weights, or where the optimiser's own rule
/// would move them by an estimate of each gradient in flight. Estimates may differ between ranks:
/// they move the point of the forward pass only, never the committed weights.
enum class Forecast : uint8_t {
  kAuto = 0,              ///< kLocal if the rule accumulates (momentum), else kNone.
  kNone = 1,              ///< At the committed weights.
  kPrevious = 2,          ///< Estimate: the last mean that arrived.
  kLocal = 3,             ///< This rank's own gradient: over ranks, the mean of the estimates is
                          ///< the mean that is under way.
  kLocalAndPrevious = 4,  ///< own/n + (last mean - own of then/n): the own share fresh, that of the
                          ///< others as it last was (SAPipe's local_prev_sync, NeurIPS 2022).
};

/// A first-order correction of a late gradient for what the weights have moved since: g takes
/// s * g * g * (w - w_then), or, adaptive, s * g * g / sqrt(g * g + eps) * (w - w_then) in addition
/// (DC-ASGD, ICML 2017).
enum class Compensation : uint8_t { kNone = 0, kPlain = 1, kAdaptive = 2 };

std::string_view name_of(Forecast forecast);  ///< "auto", "none", "previous", ...
/// Whether a rank keeps its own gradients while their mean is under way.
constexpr bool needs_own(Forecast forecast) {
  return forecast == Forecast::kLocal || forecast == Forecast::kLocalAndPrevious;
}
std::string_view name_of(Compensation compensation);  ///< "none", "plain", "adaptive".

struct PipelineOptions {
  uint32_t width = 2;         ///< K, 1..kWidthMax; 1 is synchronous training, bit for bit.
  uint64_t warmup_steps = 2;  ///< Synchronous steps first; at least one if weights are forecast.
  Forecast forecast = Forecast::kAuto;
  Compensation compensation = Compensation::kNone;
  float compensation_strength = 0.5f;  ///< s above; not negative.
  /// Feeds back how wrong the last mean was as an estimate of the one that arrived now: a late g
  /// becomes g + correction * (g - last mean). 0..1; 0: off.
  float correction = 0.0f;
  float clip_norm = 0.0f;        ///< Euclidean norm to which an applied mean is cut; 0: off.
  bool skip_non_finite = false;  ///< A mean that is not finite updates nothing, on all ranks alike.
  /// Parameters from here on are summed at once and applied fresh; the ones before are late. None
  /// are fresh if it is at or behind the end. Models lay layers out in forward order, so these are
  /// the late layers, whose gradients backward completes first.
  size_t fresh_from = SIZE_MAX;
  std::optional<GuardOptions> guard;  ///< Falls back to K = 1, on all ranks at one step.
  /// Chooses the width, 1 to `width`, and the averager's way by what steps take; starts with 1.
  std::optional<TunerOptions> tune;
  uint32_t hash_every =
      100;  ///< Steps between comparisons of the committed weights' bits; 0: never.

  /// All that is wrong, one line each.
  std::vector<std::string> validate() const;
};

}  // namespace sumcast::pipeline
