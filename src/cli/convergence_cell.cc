#include "cli/convergence_cell.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "report/table.h"
#include "trainer/idx.h"

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

constexpr std::array<ConvergenceVariant, 16> kVariants = {{
    {"sync", 1},
    {"plain", 2},
    {"previous", 2, Forecast::kPrevious},
    {"local", 2, Forecast::kLocal},
    {"forecast", 2, Forecast::kLocalAndPrevious},
    {"compensated", 2, Forecast::kNone, Compensation::kAdaptive},
    {"corrected", 2, Forecast::kNone, Compensation::kNone, 1.0f},
    {"fresh-output", 2, Forecast::kNone, Compensation::kNone, 0.0f, true},
    {"local-bf16", 2, Forecast::kLocal, Compensation::kNone, 0.0f, false, "bf16"},
    {"local-int8", 2, Forecast::kLocal, Compensation::kNone, 0.0f, false, "int8"},
    {"local-top-k", 2, Forecast::kLocal, Compensation::kNone, 0.0f, false, "top-k"},
    {"local-qsgd", 2, Forecast::kLocal, Compensation::kNone, 0.0f, false, "qsgd"},
    {"plain-3", 3},
    {"forecast-3", 3, Forecast::kLocalAndPrevious},
    {"local-3", 3, Forecast::kLocal},
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

/// Gaps are told from as many seeds on both sides; from fewer with a mark.
constexpr size_t kSeedsThatCount = 5;

/// Whether it learnt nothing: its loss is no number, or about that of guessing.
bool diverged(const ConvergenceRun& run) {
  return !(run.loss < 0.95 * std::log(static_cast<double>(trainer::kClasses)));
}

struct Moments {
  double mean = 0, deviation = 0;
};

Moments moments_of(const std::vector<double>& values) {
  Moments m;
  if (values.empty()) return m;
  const auto n = static_cast<double>(values.size());
  m.mean = std::accumulate(values.begin(), values.end(), 0.0) / n;
  double squares = 0;
  for (const double v : values) squares += (v - m.mean) * (v - m.mean);
  if (values.size() > 1) m.deviation = std::sqrt(squares / (n - 1));
  return m;
}

/// The runs of one variant in one setting.
struct Row {
  std::vector<double> accuracies;  ///< Per cent, of those that did not diverge.
  size_t diverged = 0;
  Moments moments;

  size_t seeds() const { return accuracies.size() + diverged; }
};

Row row_of(const std::vector<ConvergenceRun>& runs, std::string_view setting,
           std::string_view variant) {
  Row row;
  for (const ConvergenceRun& run : runs) {
    if (run.setting != setting || run.variant != variant) continue;
    if (diverged(run)) {
      ++row.diverged;
    } else {
      row.accuracies.push_back(100 * run.accuracy);
    }
  }
  row.moments = moments_of(row.accuracies);
  return row;
}

/// Share of the points between plain and sync that `mine` gives back; in brackets if either has too
/// few seeds, "-" if the gap is noise or plain diverged.
std::string share_closed(const Row& mine, const Row& sync, const Row& plain) {
  const double gap = sync.moments.mean - plain.moments.mean;
  const double pooled = std::sqrt((sync.moments.deviation * sync.moments.deviation +
                                   plain.moments.deviation * plain.moments.deviation) /
                                  2);
  const size_t fewest = std::min({mine.seeds(), sync.seeds(), plain.seeds()});
  const bool noise = fewest < 2 || !(gap > 2 * pooled);
  if (noise || plain.diverged > 0 || mine.diverged > 0) return "-";
  const auto share = fmt::format("{:.0f} %", 100 * (mine.moments.mean - plain.moments.mean) / gap);
  return fewest >= kSeedsThatCount ? share : "(" + share + ")";
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
                       {"diverged"},
                       {"accuracy"},
                       {"+-"},
                       {"worst"},
                       {"to sync"},
                       {"of the plain gap closed"}});
  for (const ConvergenceSetting& setting : kSettings) {
    const Row sync = row_of(runs, setting.name, "sync");
    const Row plain = row_of(runs, setting.name, "plain");
    for (const ConvergenceVariant& variant : kVariants) {
      const Row row = row_of(runs, setting.name, variant.name);
      if (row.seeds() == 0) continue;
      const bool any = !row.accuracies.empty();
      const bool compares = any && !sync.accuracies.empty() && variant.name != "sync";
      const bool closes = compares && variant.name != "plain";
      table.add_row({std::string(setting.name), std::string(variant.name),
                     std::to_string(row.seeds()), std::to_string(row.diverged),
                     any ? fmt::format("{:.2f} %", row.moments.mean) : "",
                     any ? fmt::format("{:.2f}", row.moments.deviation) : "",
                     any ? fmt::format("{:.2f} %", *std::ranges::min_element(row.accuracies)) : "",
                     compares ? fmt::format("{:+.2f}", row.moments.mean - sync.moments.mean) : "",
                     closes ? share_closed(row, sync, plain) : ""});
    }
  }
  return table.to_string();
}

}  // namespace sumcast::cli
