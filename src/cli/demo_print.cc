#include "cli/demo_print.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "report/table.h"
#include "report/units.h"

namespace sumcast::cli {
namespace {

double microseconds(Duration span) {
  return std::chrono::duration<double, std::micro>(span).count();
}

std::string in_words(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < names.size(); ++i) {
    text += (i == 0 ? "" : i + 1 == names.size() ? " and " : ", ") + names[i];
  }
  return text;
}

/// "yes" in as many words as there is evidence for; what is not so goes to broken_promises.
std::string weights_lines(std::span<const MethodOutcome> all) {
  std::string lines;
  if (std::ranges::all_of(all, &MethodOutcome::ranks_identical)) {
    lines += fmt::format("weights: bit-identical on all {} workers, with every method\n",
                         all[0].weights.size());
  }
  std::vector<std::string> names;
  bool same = true;
  const MethodOutcome* first = nullptr;
  for (const MethodOutcome& outcome : all) {
    if (!outcome.method.canonical) continue;
    if (first == nullptr) first = &outcome;
    names.emplace_back(outcome.method.name);
    same = same && identical(outcome, all);
  }
  if (same && names.size() > 1) {
    lines += fmt::format("weights: bit-identical across {} ({:016x})\n", in_words(names),
                         first->weights[0]);
  }
  return lines;
}

std::string note_of(const MethodOutcome& outcome) {
  std::string note(outcome.method.note);
  if (outcome.width > 1) note += fmt::format(", K = {}", outcome.width);
  if (!outcome.wire.empty() && outcome.wire != name_of(outcome.method.wire))
    note += fmt::format(", {}", outcome.wire);
  return note;
}

uint64_t parameters_of(const MethodOutcome& outcome) {
  return outcome.gradient_bytes / sizeof(float);
}

}  // namespace

std::string demo_table(std::span<const MethodOutcome> all) {
  if (all.empty()) return "";
  report::Table table({{"method", report::Align::kLeft},
                       {"time per step"},
                       {"in communication"},
                       {"sent per worker"},
                       {"test accuracy"},
                       {"", report::Align::kLeft}});
  for (const MethodOutcome& outcome : all) {
    table.add_row({std::string(outcome.method.name), report::format_duration(outcome.step),
                   report::format_duration(outcome.communication),
                   outcome.bytes_per_worker
                       ? report::format_bytes(static_cast<double>(*outcome.bytes_per_worker))
                       : "-",
                   fmt::format("{:.2f} %", 100 * outcome.accuracy), note_of(outcome)});
  }
  return table.to_string() + "\n" + weights_lines(all);
}

std::string demo_json(const MethodOutcome& outcome, std::span<const MethodOutcome> all) {
  nlohmann::ordered_json row;
  row["method"] = outcome.method.name;
  row["step_us"] = microseconds(outcome.step);
  row["comm_us"] = microseconds(outcome.communication);
  row["bytes_per_worker"] = nullptr;
  if (outcome.bytes_per_worker) row["bytes_per_worker"] = *outcome.bytes_per_worker;
  row["accuracy"] = std::round(1e6 * outcome.accuracy) / 1e4;  // Per cent, without 88.42999999.
  row["width"] = outcome.width;
  row["wire"] = outcome.wire;
  row["weights_hash"] = fmt::format("{:016x}", outcome.weights[0]);
  row["identical"] = identical(outcome, all);
  return row.dump() + "\n";
}

report::DemoReportData demo_report_data(const DemoOptions& options, const DemoSetting& setting,
                                        std::span<const MethodOutcome> all) {
  const bool has_links = setting.loopback_notice.empty();
  report::DemoReportData data;
  data.started = setting.started;
  data.command_line = options.command_line();
  data.version = setting.version;
  data.workers = options.workers;
  data.link_bits_per_second = has_links ? static_cast<double>(options.rate_bits_per_second()) : 0.0;
  data.epochs = options.epochs;
  data.batch = options.batch;
  data.training_images = options.images == 0 ? setting.training_images
                                             : std::min(setting.training_images,
                                                        static_cast<uint64_t>(options.images));
  if (!all.empty()) {
    data.parameters = parameters_of(all[0]);
    data.gradient_bytes = all[0].gradient_bytes;
  }
  for (const MethodOutcome& outcome : all) {
    report::DemoMethod row;
    row.name = outcome.method.name;
    row.step = outcome.step;
    row.communication = outcome.communication;
    row.bytes_per_worker = outcome.bytes_per_worker.value_or(0);
    row.accuracy = outcome.accuracy;
    row.losses = outcome.losses;
    row.weights_hash = outcome.weights[0];
    row.note = note_of(outcome);
    data.methods.push_back(std::move(row));
  }
  data.machine = {
      {"Processor", fmt::format("{}, {} cores for all of it", setting.cpu, setting.cores)},
      {"Kernel", setting.kernel},
      {"Network", has_links ? "network namespaces joined by veth and a bridge; each worker's link "
                              "shaped both ways, the aggregator's port not"
                            : "loopback"}};
  if (!has_links) data.caveats.push_back(setting.loopback_notice);
  if (options.workers > setting.cores) {
    data.caveats.push_back(
        fmt::format("{} workers share {} cores, with sumcastd where there is one: a step's "
                    "computation takes longer than on machines of their "
                    "own, so communication weighs less here than it would there.",
                    options.workers, setting.cores));
  }
  data.caveats.push_back(
      "Time in communication runs from the moment when the last worker has its gradient until the "
      "sum is there; waiting for slower workers counts as computation.");
  if (std::ranges::any_of(all, [](const auto& outcome) { return !outcome.bytes_per_worker; })) {
    data.caveats.push_back(
        "Bytes shown as 0 went over TCP on loopback, where nobody counts them per worker.");
  }
  return data;
}

}  // namespace sumcast::cli
