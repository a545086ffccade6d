#include "cli/sparse_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include <nlohmann/json.hpp>

#include "cli/bench_plan.h"
#include "cli/row_format.h"
#include "report/table.h"

namespace sumcast::cli {
namespace {

constexpr std::string_view kPathNames[kSparsePaths] = {"servers", "dual", "auto", "forward"};

Error refusal(std::string_view flag, std::string_view value, std::string_view wanted) {
  return {ErrorCode::kInvalidArgument, fmt::format("{} {}: it must be {}", flag, value, wanted)};
}

}  // namespace

std::string_view name_of(SparsePath path) { return kPathNames[static_cast<size_t>(path)]; }

Result<std::vector<SparsePath>> sparse_paths(const std::string& list) {
  std::vector<SparsePath> paths;
  for (const std::string& word : split_at_commas(list)) {
    const auto* const found = std::ranges::find(kPathNames, word);
    if (found == std::end(kPathNames))
      return fail(refusal("--path", word, "servers, forward, dual, auto"));
    const auto path = static_cast<SparsePath>(found - std::begin(kPathNames));
    if (std::ranges::find(paths, path) != paths.end()) {
      return fail(refusal("--path", list, "each path once"));
    }
    paths.push_back(path);
  }
  return paths;
}

Result<std::vector<SparseFlags>> sparse_stages(const SparseFlags& flags) {
  const auto paths = sparse_paths(flags.paths);
  if (!paths) return fail(paths.error());
  std::vector<std::string_view> left;
  for (const SparsePath path : *paths) {
    if (path != SparsePath::kForward) left.push_back(name_of(path));
  }
  std::vector<SparseFlags> stages;
  for (const std::string& word : split_at_commas(flags.staleness_list)) {
    SparseFlags& stage = stages.emplace_back(flags);
    const auto [end, error] =
        std::from_chars(word.data(), word.data() + word.size(), stage.staleness);
    if (word.empty() || error != std::errc() || end != word.data() + word.size()) {
      return fail(refusal("--staleness", word, "a number, or some with commas, such as 0,1,4"));
    }
    if (stage.staleness == 0) continue;
    if (left.empty()) {
      return fail(
          refusal("--staleness", word, "0 with --path forward, whose rounds end one by one"));
    }
    stage.paths = fmt::format("{}", fmt::join(left, ","));
    stage.peer.clear();
  }
  return stages;
}

Result<sparse::Options> sparse_options(const SparseFlags& flags) {
  if (flags.skew != "ctr" && flags.skew != "text" && flags.skew != "flat") {
    return fail(refusal("--skew", flags.skew, "ctr, text or flat"));
  }
  const auto optimizer = table::optimizer_from_name(flags.optimizer);
  if (!optimizer) {
    return fail(refusal("--optimizer", flags.optimizer, table::optimizer_names()));
  }
  const auto wire = parse_row_format("--wire", flags.wire);
  if (!wire) return fail(wire.error());
  const auto row_wire = parse_row_format("--row-wire", flags.row_wire);
  if (!row_wire) return fail(row_wire.error());
  if (!(flags.hot_share_max >= 0 && flags.hot_share_max <= 1)) {
    return fail(refusal("--hot-max", fmt::format("{}", flags.hot_share_max), "from 0 to 1"));
  }
  if (flags.flush_every != 0 && flags.rounds % flags.flush_every != 0) {
    return fail(
        refusal("--rounds", fmt::format("{}", flags.rounds),
                fmt::format("a multiple of --flush-every {}: a block then has whole flushes",
                            flags.flush_every)));
  }
  sparse::Options options;
  options.workers = flags.workers;
  options.servers = flags.servers;
  if (flags.segments != 0) options.segments = flags.segments;  // Else the driver chooses.
  options.staleness = flags.staleness;
  options.wire = *wire;
  options.row_wire = *row_wire;
  options.shape.width = flags.width;
  options.shape.optimizer.kind = *optimizer;
  if (auto fine = options.validate(); !fine) return fail(fine.error());
  return options;
}

std::string to_json_line(const SparseBlock& block) {
  const nlohmann::ordered_json json = {
      {"round_us", block.round_us},     {"hash", block.hash},
      {"hot_pushed", block.hot_pushed}, {"cold_pushed", block.cold_pushed},
      {"hot_keys", block.hot_keys},     {"chosen", block.chosen}};
  return json.dump();
}

Result<SparseBlock> sparse_block_from_line(std::string_view line) {
  const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (json.is_object() && json.contains("error") && json["error"].is_string()) {
    return fail(ErrorCode::kAborted, json["error"].get<std::string>());
  }
  SparseBlock block;
  try {
    block.round_us = json.at("round_us");
    block.hash = json.at("hash");
    block.hot_pushed = json.at("hot_pushed");
    block.cold_pushed = json.at("cold_pushed");
    block.hot_keys = json.at("hot_keys");
    block.chosen = json.at("chosen");
    if (json.contains("rank")) block.rank = json.at("rank");
  } catch (const nlohmann::json::exception&) {
    return fail(ErrorCode::kInternal, fmt::format("a worker said \"{}\"", line));
  }
  return block;
}

std::string to_json_line(const SparseRow& row, const SparseFlags& flags) {
  nlohmann::ordered_json json = {{"path", row.path},
                                 {"skew", flags.skew},
                                 {"workers", flags.workers},
                                 {"servers", flags.servers},
                                 {"rate", flags.rate},
                                 {"batch", flags.batch},
                                 {"width", flags.width},
                                 {"wire", flags.wire},
                                 {"row_wire", flags.row_wire},
                                 {"staleness", flags.staleness},
                                 {"round_us", row.round_us},
                                 {"bytes_per_worker", row.bytes_per_worker},
                                 {"server_bytes", row.server_bytes},
                                 {"server_packets", row.server_packets},
                                 {"server_drops", row.server_drops},
                                 {"server_flows", row.server_flows},
                                 {"hot_share", row.hot_share},
                                 {"hot_keys", row.hot_keys},
                                 {"wrong", row.wrong}};
  if (!row.chosen.empty()) json["chosen"] = row.chosen;
  return json.dump();
}

std::string sparse_table(const std::vector<SparseRow>& rows, const SparseFlags& flags) {
  using report::Align;
  report::Table table({{"path", Align::kLeft},
                       {"round", Align::kRight},
                       {"faster by", Align::kRight},
                       {"bytes per worker", Align::kRight},
                       {"bytes at servers", Align::kRight},
                       {"packets", Align::kRight},
                       {"dropped", Align::kRight},
                       {"flows", Align::kRight},
                       {"hot", Align::kRight},
                       {"hot keys", Align::kRight},
                       {"rows", Align::kLeft}});
  for (const SparseRow& row : rows) {
    const std::string name =
        row.chosen.empty() ? row.path : fmt::format("{} ({})", row.path, row.chosen);
    table.add_row({name, fmt::format("{:.2f} ms", row.round_us / 1e3),
                   fmt::format("{:.2f}x", rows.front().round_us / row.round_us),
                   fmt::format("{:.0f} kB", row.bytes_per_worker / 1e3),
                   fmt::format("{:.0f} kB", row.server_bytes / 1e3),
                   fmt::format("{:.0f}", row.server_packets), fmt::format("{}", row.server_drops),
                   fmt::format("{}", row.server_flows),
                   fmt::format("{:.0f} %", 100 * row.hot_share), fmt::format("{}", row.hot_keys),
                   row.wrong == 0 ? "same bits" : fmt::format("{} WRONG", row.wrong)});
  }
  return fmt::format(
      "Communication of a round: {} workers, {} server{}, {}, {} keys of {} lanes, batches of "
      "{}{}\n{}",
      flags.workers, flags.servers, flags.servers == 1 ? "" : "s",
      flags.rate.empty() ? std::string("links without a limit") : flags.rate, flags.skew,
      flags.width, flags.batch,
      flags.staleness == 0 ? std::string() : fmt::format(", asked for {} ahead", flags.staleness),
      table.to_string());
}

}  // namespace sumcast::cli
