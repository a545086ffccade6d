#include "cli/convergence_cell.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "report/table.h"

namespace sumcast::cli {
namespace {

using pipeline::Compensation;
using pipeline::Forecast;
using trainer::Optimiser;

constexpr std::array<ConvergenceSetting, 6> kSettings = {{
    {"sgd", Optimiser::kSgd, 0.15f, 0.9f},
    {"sgd-slow", Optimiser::kSgd, 0.03f, 0.9f},
    {"sgd-fast", Optimiser::kSgd, 0.4f, 0.9f},  // Beyond what suits it: a delay should hurt.
    {"sgd-no-momentum", Optimiser::kSgd, 0.5f, 0.0f},
    {"adamw", Optimiser::kAdamW, 0.001f, 0.9f},
    {"adamw-fast", Optimiser::kAdamW, 0.004f, 0.9f},
}};

constexpr std::array<ConvergenceVariant, 17> kVariants = {{
    {"sync", 1},
    {"plain", 2},
    {"previous", 2, Forecast::kPrevious},
    {"local", 2, Forecast::kLocal},
    {"forecast", 2, Forecast::kLocalAndPrevious},
    {"compensated", 2, Forecast::kNone, Compensation::kAdaptive},
    {"corrected", 2, Forecast::kNone, Compensation::kNone, 1.0f},
    {"fresh-output", 2, Forecast::kNone, Compensation::kNone, 0.0f, true},
    {"bf16", 2, Forecast::kLocalAndPrevious, Compensation::kNone, 0.0f, false, "bf16"},
    {"int8", 2, Forecast::kLocalAndPrevious, Compensation::kNone, 0.0f, false, "int8"},
    {"top-k", 2, Forecast::kLocalAndPrevious, Compensation::kNone, 0.0f, false, "top-k"},
    {"qsgd", 2, Forecast::kLocalAndPrevious, Compensation::kNone, 0.0f, false, "qsgd"},
    {"plain-3", 3},
    {"forecast-3", 3, Forecast::kLocalAndPrevious},
    {"local-3", 3, Forecast::kLocal},
    {"local-top-k", 2, Forecast::kLocal, Compensation::kNone, 0.0f, false, "top-k"},
    {"async", 1, Forecast::kNone, Compensation::kNone, 0.0f, false, {}, true},
}};

std::unique_ptr<pipeline::Encoder> make_encoder(std::string_view name) {
  if (name == "top-k") return pipeline::make_top_k_encoder(0.01);
  if (name == "qsgd") return pipeline::make_qsgd_encoder(127);
  return pipeline::make_wire_encoder(wire_format_from_name(name).value());
}

template <typename Entry>
const Entry* find(std::span<const Entry> entries, std::string_view name) {
  const auto found = std::ranges::find(entries, name, &Entry::name);
  return found == entries.end() ? nullptr : &*found;
}

template <typename Entry>
std::string names_of(std::span<const Entry> entries) {
  std::string names;
  for (const Entry& entry : entries) {
    names += fmt::format("{}{}", names.empty() ? "" : ", ", entry.name);
  }
  return names;
}

struct Moments {
  size_t count = 0;
  double mean = 0, deviation = 0;
};

Moments moments_of(const std::vector<double>& values) {
  Moments m{values.size(), 0, 0};
  if (values.empty()) return m;
  const auto n = static_cast<double>(values.size());
  m.mean = std::accumulate(values.begin(), values.end(), 0.0) / n;
  double squares = 0;
  for (const double v : values) squares += (v - m.mean) * (v - m.mean);
  if (values.size() > 1) m.deviation = std::sqrt(squares / (n - 1));
  return m;
}

}  // namespace

std::span<const ConvergenceSetting> convergence_settings() { return kSettings; }
std::span<const ConvergenceVariant> convergence_variants() { return kVariants; }
const ConvergenceSetting* setting_from_name(std::string_view name) {
  return find(convergence_settings(), name);
}
const ConvergenceVariant* variant_from_name(std::string_view name) {
  return find(convergence_variants(), name);
}
std::string setting_names() { return names_of(convergence_settings()); }
std::string variant_names() { return names_of(convergence_variants()); }

trainer::TrainOptions options_for(const trainer::TrainOptions& base,
                                  const ConvergenceSetting& setting,
                                  const ConvergenceVariant& variant, size_t parameters,
                                  size_t output_parameters) {
  trainer::TrainOptions options = base;
  options.optimiser = setting.optimiser;
  options.rate = setting.rate;
  options.momentum = setting.momentum;
  options.score_epochs = true;
  options.pipeline = {};
  options.pipeline.warmup_steps = base.pipeline.warmup_steps;
  options.pipeline.width = variant.width;
  options.pipeline.forecast = variant.forecast;
  options.pipeline.compensation = variant.compensation;
  options.pipeline.correction = variant.correction;
  if (variant.fresh_output) options.pipeline.fresh_from = parameters - output_parameters;
  if (!variant.encoder.empty()) {
    options.encoder = [name = variant.encoder] { return make_encoder(name); };
  }
  return options;
}

std::string to_json_line(const ConvergenceRun& run) {
  return nlohmann::ordered_json{{"setting", run.setting},   {"variant", run.variant},
                                {"seed", run.seed},         {"grid", run.grid},
                                {"accuracy", run.accuracy}, {"loss", run.loss},
                                {"epochs", run.epochs}}
      .dump();
}

Result<ConvergenceRun> run_from_json(std::string_view line) {
  try {
    const auto json = nlohmann::json::parse(line);
    ConvergenceRun run;
    json.at("setting").get_to(run.setting);
    json.at("variant").get_to(run.variant);
    json.at("seed").get_to(run.seed);
    json.at("grid").get_to(run.grid);
    json.at("accuracy").get_to(run.accuracy);
    run.loss = json.at("loss").is_null() ? NAN : json.at("loss").get<double>();
    json.at("epochs").get_to(run.epochs);
    return run;
  } catch (const nlohmann::json::exception& error) {
    return fail(ErrorCode::kInvalidArgument, fmt::format("not a result: {}", error.what()));
  }
}

std::string convergence_table(const std::vector<ConvergenceRun>& runs) {
  report::Table table({{"setting", report::Align::kLeft},
                       {"variant", report::Align::kLeft},
                       {"seeds"},
                       {"accuracy"},
                       {"+-"},
                       {"worst"},
                       {"to sync"},
                       {"of the plain gap closed"}});
  for (const ConvergenceSetting& setting : kSettings) {
    const auto of = [&](std::string_view variant) {
      std::vector<double> accuracies;
      for (const ConvergenceRun& run : runs) {
        if (run.setting == setting.name && run.variant == variant) {
          accuracies.push_back(100 * run.accuracy);
        }
      }
      return accuracies;
    };
    const Moments sync = moments_of(of("sync")), plain = moments_of(of("plain"));
    const double gap = sync.mean - plain.mean;
    const double pooled =
        std::sqrt((sync.deviation * sync.deviation + plain.deviation * plain.deviation) / 2);
    // Smaller gaps are noise, and a share of noise means nothing.
    const bool counts = sync.count > 1 && plain.count > 1 && gap > 2 * pooled;
    for (const ConvergenceVariant& variant : kVariants) {
      const std::vector<double> accuracies = of(variant.name);
      if (accuracies.empty()) continue;
      const Moments m = moments_of(accuracies);
      const bool compares = sync.count > 0 && variant.name != "sync";
      const bool closes = counts && compares && variant.name != "plain";
      table.add_row({std::string(setting.name), std::string(variant.name), std::to_string(m.count),
                     fmt::format("{:.2f} %", m.mean), fmt::format("{:.2f}", m.deviation),
                     fmt::format("{:.2f} %", *std::ranges::min_element(accuracies)),
                     compares ? fmt::format("{:+.2f}", m.mean - sync.mean) : "",
                     closes ? fmt::format("{:.0f} %", 100 * (m.mean - plain.mean) / gap)
                            : std::string(compares ? "-" : "")});
    }
  }
  return table.to_string();
}

}  // namespace sumcast::cli
