#include "cli/sparse_sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "cli/result_lines.h"
#include "cli/sparse_bench.h"
#include "report/table.h"

namespace sumcast::cli {
namespace {

/// What all cells of a file must have in common.
nlohmann::ordered_json settings_of(const SparseFlags& flags) {
  return {{"skew", flags.skew},         {"rate", flags.rate},
          {"wire", flags.wire},         {"row_wire", flags.row_wire},
          {"seed", flags.seed},         {"vocabulary", flags.vocabulary},
          {"segments", flags.segments}, {"optimizer", flags.optimizer}};
}

Result<std::vector<SweepResult>> read_results(const SparseFlags& flags) {
  return read_result_lines<SweepResult>(
      flags.out, [&](const std::string& line) { return sweep_result_from_line(line, flags); });
}

Result<SweepResult> measure_cell(const SweepCell& cell, SparseFlags flags, std::string_view label) {
  flags.workers = cell.workers;
  flags.servers = cell.servers;
  flags.batch = cell.batch;
  flags.width = cell.width;
  flags.paths = "servers,dual";
  const auto rows = measure_sparse(flags, label);
  if (!rows) return fail(rows.error());
  if ((*rows)[1].wrong != 0) {
    return fail(ErrorCode::kMismatch, "paths ended with different rows");
  }
  return SweepResult{cell, (*rows)[0].round_us, (*rows)[1].round_us, (*rows)[1].hot_share};
}

std::string name_of(const SweepCell& cell) {
  return fmt::format("{} workers, {} server{}, batch {}, width {}", cell.workers, cell.servers,
                     cell.servers == 1 ? "" : "s", cell.batch, cell.width);
}

}  // namespace

std::vector<SweepCell> sweep_cells() {
  std::vector<SweepCell> cells;
  for (const uint32_t servers : {1u, 2u, 4u}) {
    for (const uint32_t workers : {8u, 2u, 4u, 16u}) {
      for (const uint32_t batch : {256u, 64u}) {
        for (const uint32_t width : {16u, 64u}) cells.push_back({workers, servers, batch, width});
      }
    }
  }
  return cells;
}

std::string to_json_line(const SweepResult& result, const SparseFlags& flags) {
  nlohmann::ordered_json json = settings_of(flags);
  json["workers"] = result.cell.workers;
  json["servers"] = result.cell.servers;
  json["batch"] = result.cell.batch;
  json["width"] = result.cell.width;
  json["servers_us"] = result.servers_us;
  json["dual_us"] = result.dual_us;
  json["faster_by"] = result.ratio();
  json["hot_share"] = result.hot_share;
  return json.dump();
}

Result<SweepResult> sweep_result_from_line(std::string_view line, const SparseFlags& flags) {
  const auto json = nlohmann::ordered_json::parse(line, nullptr, /*allow_exceptions=*/false);
  const nlohmann::ordered_json settings = settings_of(flags);
  SweepResult result;
  try {
    for (const auto& [name, value] : settings.items()) {
      if (json.at(name) == value) continue;
      return fail(ErrorCode::kInvalidArgument, fmt::format("measured with {} {}, not {}", name,
                                                           json.at(name).dump(), value.dump()));
    }
    result.cell = {json.at("workers"), json.at("servers"), json.at("batch"), json.at("width")};
    result.servers_us = json.at("servers_us");
    result.dual_us = json.at("dual_us");
    result.hot_share = json.at("hot_share");
  } catch (const nlohmann::json::exception&) {
    return fail(ErrorCode::kInvalidArgument, "no line of a sweep");
  }
  return result;
}

std::string sweep_table(std::vector<SweepResult> results, const SparseFlags& flags) {
  using report::Align;
  report::Table table({{"workers", Align::kRight},
                       {"servers", Align::kRight},
                       {"batch", Align::kRight},
                       {"width", Align::kRight},
                       {"over servers", Align::kRight},
                       {"dual", Align::kRight},
                       {"faster by", Align::kRight},
                       {"hot", Align::kRight}});
  std::ranges::stable_sort(results, std::ranges::greater(), &SweepResult::ratio);
  for (const SweepResult& one : results) {
    table.add_row({fmt::format("{}", one.cell.workers), fmt::format("{}", one.cell.servers),
                   fmt::format("{}", one.cell.batch), fmt::format("{}", one.cell.width),
                   fmt::format("{:.2f} ms", one.servers_us / 1e3),
                   fmt::format("{:.2f} ms", one.dual_us / 1e3), fmt::format("{:.2f}x", one.ratio()),
                   fmt::format("{:.0f} %", 100 * one.hot_share)});
  }
  if (results.empty()) return "no cell measured\n";
  const auto pays = [](const SweepResult& one) { return one.ratio() > 1; };
  const auto paying = std::ranges::count_if(results, pays);
  return fmt::format(
      "{}, {}: {} cells\n{}best: {}, {:.2f}x; it pays in {} of {}, least of all with {}, {:.2f}x\n",
      flags.skew, flags.rate.empty() ? std::string("links without a limit") : flags.rate,
      results.size(), table.to_string(), name_of(results.front().cell), results.front().ratio(),
      paying, results.size(), name_of(results.back().cell), results.back().ratio());
}

Result<void> run_sparse_sweep(const SparseFlags& flags) {
  if (!flags.peer.empty()) {
    return fail(ErrorCode::kInvalidArgument, "--sweep and --peer: one at a time");
  }
  if (flags.staleness_list != "0") {
    return fail(ErrorCode::kInvalidArgument, "--sweep: only with --staleness 0");
  }
  auto results = read_results(flags);
  if (!results) return fail(results.error());
  const std::vector<SweepCell> cells = sweep_cells();
  for (size_t i = 0; i < cells.size(); ++i) {
    if (std::ranges::find(*results, cells[i], &SweepResult::cell) != results->end()) continue;
    const std::string label = fmt::format("cell {}/{}: ", i + 1, cells.size());
    auto result = measure_cell(cells[i], flags, label);
    if (!result) return fail(result.error().within(name_of(cells[i])));
    results->push_back(*result);
    if (flags.json) fmt::print("{}\n", to_json_line(*result, flags)), std::fflush(stdout);
    if (flags.out.empty()) continue;
    std::ofstream file(flags.out, std::ios::app);
    file << to_json_line(*result, flags) << '\n';
    file.close();
    if (!file) return fail(ErrorCode::kSystem, fmt::format("{} cannot be written", flags.out));
  }
  if (!flags.json) fmt::print("{}", sweep_table(std::move(*results), flags));
  return {};
}

}  // namespace sumcast::cli
