// What `sumcast bench convergence` compares: settings in which a delay may hurt, and variants of
// training in each. Pure; the runs are convergence_bench's.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "trainer/train.h"

namespace sumcast::cli {

/// An optimiser with a rate; the rate is one that suits synchronous training unless its name says
/// otherwise.
struct ConvergenceSetting {
  std::string_view name;
  trainer::Optimiser optimiser = trainer::Optimiser::kSgd;
  float rate = 0.1f;
  float momentum = 0.9f;
};

/// A way to train. "sync" is what all others are compared with, "plain" the delay without remedy.
struct ConvergenceVariant {
  std::string_view name;
  uint32_t width = 2;
  pipeline::Forecast forecast = pipeline::Forecast::kNone;
  pipeline::Compensation compensation = pipeline::Compensation::kNone;
  float correction = 0.0f;
  bool fresh_output = false;   ///< The last layer's gradients are applied fresh.
  std::string_view encoder{};  ///< "", "bf16", "int8", "top-k" (1 %), "qsgd" (127 levels).
  bool turns = false;          ///< At an asynchronous server; nothing else applies then.
};

std::span<const ConvergenceSetting> convergence_settings();
std::span<const ConvergenceVariant> convergence_variants();
const ConvergenceSetting* setting_from_name(std::string_view name);
const ConvergenceVariant* variant_from_name(std::string_view name);
std::string setting_names();
std::string variant_names();

/// `base` with what the two ask for. `output_parameters`: of the model's last layer.
trainer::TrainOptions options_for(const trainer::TrainOptions& base,
                                  const ConvergenceSetting& setting,
                                  const ConvergenceVariant& variant, size_t parameters,
                                  size_t output_parameters);

/// One finished run; a line of the results file.
struct ConvergenceRun {
  std::string setting, variant;
  uint64_t seed = 1;
  std::string grid;            ///< What else the run depends on, as "4 workers, 3 epochs, ...".
  double accuracy = 0;         ///< On the test images, 0 to 1.
  double loss = 0;             ///< Mean of rank 0's last losses.
  std::vector<double> epochs;  ///< Accuracy after each.
};
std::string to_json_line(const ConvergenceRun& run);
Result<ConvergenceRun> run_from_json(std::string_view line);

/// Means and deviations over the seeds that did not diverge, gaps to "sync", and what of the plain
/// gap a variant closes: if the gap is more than twice the pooled deviation and plain did not
/// diverge; in brackets with fewer than five seeds.
std::string convergence_table(const std::vector<ConvergenceRun>& runs);

}  // namespace sumcast::cli
