#include "report/nccl_table.h"

#include <fmt/format.h>

#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/assert.h"

namespace sumcast::report {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kFloorShare = 0.9;
constexpr int kJsonVersion = 3;

/// printf's %*g, which fmt rounds alike but pads by other rules for non-finite values.
std::string print_g(double value, int width) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%*g", width, value);
  return text.data();
}

/// As many of two decimals as `width` has room for, then an exponent.
std::string fitted(double value, size_t width) {
  for (const int decimals : {2, 1, 0}) {
    std::string text = fmt::format("{:{}.{}f}", value, width, decimals);
    if (text.size() <= width) return text;
  }
  return fmt::format("{:{}.{}e}", value, width, width >= 7 ? 1 : 0);
}

std::string half_row(const NcclTiming& timing) {
  return fmt::format("  {:>7}  {:>6}  {:>6}  {:>6}", fitted(timing.time_us, 7),
                     fitted(timing.algbw_GBps, 6), fitted(timing.busbw_GBps, 6),
                     timing.wrong ? print_g(static_cast<double>(*timing.wrong), 6) : "N/A");
}

std::string column_titles(std::array<std::string_view, 5> left,
                          std::array<std::string_view, 4> half) {
  std::string line = fmt::format("# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}", left[0], left[1], left[2],
                                 left[3], left[4]);
  for (int i = 0; i < 2; ++i) {
    line += fmt::format("  {:>7}  {:>6}  {:>6}  {:>6}", half[0], half[1], half[2], half[3]);
  }
  return line + " \n";  // The blank stands before an optional time stamp.
}

std::string bool_text(bool value) { return value ? "true" : "false"; }

bool above_floor(double busbw_GBps, BandwidthFloor floor) {
  return !floor || busbw_GBps >= *floor * kFloorShare;
}

Json json_of(const NcclTiming& timing) {
  return {{"time", timing.time_us},
          {"alg_bw", timing.algbw_GBps},
          {"bus_bw", timing.busbw_GBps},
          {"nwrong", timing.wrong ? Json(static_cast<double>(*timing.wrong)) : Json(nullptr)}};
}

Json json_of(const NcclRow& row, const std::string& program) {
  return {{"size", row.bytes},
          {"count", row.count},
          {"type", nccl_name(row.type)},
          {"redop", nccl_name(row.reduction)},
          {"root", fmt::format("{:6}", row.root)},
          {"out_of_place", row.out_of_place ? json_of(*row.out_of_place) : Json(nullptr)},
          {"in_place", json_of(row.in_place)},
          {"actual_iterations", row.iterations},
          {"experiment_name", program}};
}

Json json_of(const NcclDevice& device) {
  return {{"rank", device.rank},       {"group", device.group},   {"pid", device.pid},
          {"hostname", device.host},   {"device", device.device}, {"device_hex", "0000:00:00"},
          {"device_info", device.info}};
}

Json config_of(const NcclRun& run) {
  Json config = {{"nthreads", run.threads},
                 {"ngpus", run.devices_per_thread},
                 {"minimum_bytes", run.bytes_min},
                 {"maximum_bytes", run.bytes_max}};
  if (run.step_factor > 1) {
    config["step_factor"] = run.step_factor;
  } else {
    config["step_bytes"] = run.step_bytes;
  }
  config["warmup_iters"] = run.warmup_iterations;
  config["iterations"] = run.iterations;
  config["aggregated_iterations"] = run.aggregated_iterations;
  config["validation"] = run.validation;
  config["graph"] = 0;
  config["blocking_collectives"] = bool_text(false);
  config["per_iter_timing"] = bool_text(false);
  config["per_iter_skip"] = 0;
  config["parallel_init"] = bool_text(false);
  // nccl-tests writes the devices while this object is still open; its readers look here.
  config["devices"] = Json::array();
  for (const NcclDevice& device : run.devices) config["devices"].push_back(json_of(device));
  return config;
}

}  // namespace

double bus_bandwidth_factor(Collective collective, int ranks) {
  SUMCAST_ASSERT(ranks > 0);
  const double others = static_cast<double>(ranks - 1) / ranks;
  switch (collective) {
    case Collective::kAllReduce:
      return 2.0 * others;
    case Collective::kReduceScatter:
    case Collective::kAllGather:
    case Collective::kAllToAll:
      return others;
    case Collective::kBroadcast:
    case Collective::kReduce:
      return 1.0;
  }
  return 1.0;
}

std::string_view nccl_name(ElementType type) {
  constexpr std::array<std::string_view, kElementTypes> kNames = {
      "int8", "uint8", "int16", "int32", "int64", "half", "bfloat16", "float", "double", "bool"};
  return kNames[static_cast<size_t>(type)];
}

std::string_view nccl_name(Reduction reduction) {
  if (reduction == Reduction::kProduct) return "prod";
  if (reduction == Reduction::kCopy) return "none";
  return name_of(reduction);
}

NcclTiming nccl_timing(Collective collective, int ranks, uint64_t bytes, double time_us,
                       std::optional<int64_t> wrong) {
  const double algbw = time_us > 0.0 ? static_cast<double>(bytes) / (time_us * 1e3) : 0.0;
  return {time_us, algbw, algbw * bus_bandwidth_factor(collective, ranks), wrong};
}

NcclVerdict nccl_verdict(std::span<const NcclRow> rows, BandwidthFloor floor) {
  NcclVerdict verdict;
  int halves = 0;
  const auto count = [&](const NcclTiming& timing) {
    verdict.out_of_bounds += timing.wrong.value_or(0) > 0;
    verdict.busbw_GBps_average += timing.busbw_GBps;
    ++halves;
  };
  for (const NcclRow& row : rows) {
    if (row.out_of_place) count(*row.out_of_place);
    count(row.in_place);
  }
  if (halves > 0) verdict.busbw_GBps_average /= halves;
  verdict.okay = verdict.out_of_bounds == 0 && above_floor(verdict.busbw_GBps_average, floor);
  return verdict;
}

std::string nccl_header(const NcclRun& run) {
  const bool by_factor = run.step_factor > 1;
  std::string text = fmt::format("# nccl-tests version {} nccl-headers={} nccl-library={}\n",
                                 run.version, run.headers_version, run.library_version);
  text += fmt::format("# Collective test starting: {}\n", run.program);
  text += fmt::format(
      "# nThread {} nGpus {} minBytes {} maxBytes {} step: {}({}) warmup iters: {} iters: {} agg "
      "iters: {} validation: {} graph: 0 unalign: {}\n#\n# Using devices\n",
      run.threads, run.devices_per_thread, run.bytes_min, run.bytes_max,
      by_factor ? run.step_factor : run.step_bytes, by_factor ? "factor" : "bytes",
      run.warmup_iterations, run.iterations, run.aggregated_iterations, run.validation,
      run.unalign);
  for (const NcclDevice& device : run.devices) {
    text +=
        fmt::format("#  Rank {:2} Group {:2} Pid {:6} on {:>10} device {:2} [0000:00:00] {}\n",
                    device.rank, device.group, device.pid, device.host, device.device, device.info);
  }
  text += "#\n# " + std::string(10 + 2 + 12 + 2 + 8 + 2 + 6 + 2 + 6, ' ') +
          "           out-of-place                       in-place          \n";
  text += column_titles({"size", "count", "type", "redop", "root"},
                        {"time", "algbw", "busbw", "#wrong"});
  return text + column_titles({"(B)", "(elements)", "", "", ""}, {"(us)", "(GB/s)", "(GB/s)", ""});
}

std::string nccl_row(const NcclRow& row) {
  // One less than a half row takes, as nccl-tests has it.
  constexpr size_t kBlankWidth = 32;
  return fmt::format("{:12}  {:12}  {:>8}  {:>6}  {:>6}", row.bytes, row.count, nccl_name(row.type),
                     nccl_name(row.reduction), row.root) +
         (row.out_of_place ? half_row(*row.out_of_place) : std::string(kBlankWidth, ' ')) +
         half_row(row.in_place) + "\n";
}

std::string nccl_footer(const NcclRun& run, std::span<const NcclRow> rows, BandwidthFloor floor) {
  const NcclVerdict verdict = nccl_verdict(rows, floor);
  const double average = verdict.busbw_GBps_average;
  const char* floor_word = !floor ? "" : above_floor(average, floor) ? "OK" : "FAILED";
  return fmt::format("# {:<20} : {} {}\n", "Out of bounds values", verdict.out_of_bounds,
                     verdict.out_of_bounds > 0 ? "FAILED" : "OK") +
         fmt::format("# {:<20} : {} {}\n", "Avg bus bandwidth", print_g(average, 0), floor_word) +
         fmt::format("#\n# Collective test concluded: {}\n", run.program);
}

std::string nccl_json(const NcclRun& run, std::span<const NcclRow> rows, BandwidthFloor floor,
                      const NcclDocument& document) {
  const NcclVerdict verdict = nccl_verdict(rows, floor);
  Json results = Json::array();
  for (const NcclRow& row : rows) results.push_back(json_of(row, run.program));
  const bool reached = above_floor(verdict.busbw_GBps_average, floor);
  const Json json = {
      {"version", kJsonVersion},
      {"start_time", document.start_time},
      {"args", document.args},
      {"env", document.env},
      {"nccl_version", run.library_version},
      {"config", config_of(run)},
      {"results", std::move(results)},
      {"out_of_bounds",
       {{"count", verdict.out_of_bounds}, {"okay", bool_text(verdict.out_of_bounds == 0)}}},
      {"average_bus_bandwidth",
       {{"bandwidth", verdict.busbw_GBps_average},
        {"okay", floor ? bool_text(reached) : "unchecked"}}},
      {"end_time", document.end_time}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace sumcast::report
