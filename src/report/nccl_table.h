// The output of nccl-tests, column by column, for people and programs that already read it.
//
// Layout and rounding follow nccl-tests 2.19.6: a row is "%12li  %12li  %8s  %6s  %6s" and then
// "  %7s  %6s  %6s  %6g" twice, out of place and in place; a figure is printed with as many of two
// decimals as fit its width. (Earlier releases rounded by another rule near powers of ten.) GB are
// 1e9 bytes. Nothing here measures: rows come in finished.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/element.h"

namespace sumcast::report {

enum class Collective : uint8_t {
  kAllReduce,
  kReduceScatter,
  kAllGather,
  kAllToAll,
  kBroadcast,
  kReduce,
};

/// What algbw is multiplied with to compare with the speed of a link: 2(n-1)/n for all-reduce,
/// (n-1)/n for reduce-scatter, all-gather and all-to-all, 1 for broadcast and reduce.
double bus_bandwidth_factor(Collective collective, int ranks);

/// nccl-tests' words: "float" "half" "bfloat16" "double" "int8" "uint8" "int32" "int64"; types that
/// NCCL lacks keep a word of their own ("int16", "bool").
std::string_view nccl_name(ElementType type);
/// "sum" "prod" "min" "max" "avg"; "none" for kCopy; bitwise ones keep our names.
std::string_view nccl_name(Reduction reduction);

/// Half of a row: out of place or in place.
struct NcclTiming {
  double time_us = 0.0;
  double algbw_GBps = 0.0;
  double busbw_GBps = 0.0;
  std::optional<int64_t> wrong;  ///< Wrong elements; empty: not checked, printed as N/A.
};

/// algbw and busbw from a size and a time.
NcclTiming nccl_timing(Collective collective, int ranks, uint64_t bytes, double time_us,
                       std::optional<int64_t> wrong);

struct NcclRow {
  uint64_t bytes = 0;  ///< The larger of what a rank sends and receives.
  uint64_t count = 0;
  ElementType type = ElementType::kF32;
  Reduction reduction = Reduction::kSum;
  int root = -1;                           ///< -1 where there is none.
  std::optional<NcclTiming> out_of_place;  ///< Empty: left blank, null in JSON.
  NcclTiming in_place;
  int iterations = 0;  ///< What was really run; JSON only.
};

struct NcclDevice {
  int rank = 0;
  int group = 0;
  int pid = 0;
  std::string host;
  int device = 0;
  std::string info;  ///< nccl-tests prints the GPU's name, we the CPU's.
};

/// Everything before the first row.
struct NcclRun {
  std::string version = "2.19.6";  ///< Of nccl-tests whose layout this is.
  int headers_version = 0;
  int library_version = 0;  ///< Of what did the work, as one integer.
  std::string program = "all_reduce_perf";
  int threads = 1;
  int devices_per_thread = 1;
  uint64_t bytes_min = 0;
  uint64_t bytes_max = 0;
  uint64_t step_bytes = 0;  ///< Used if step_factor is not above 1.
  uint64_t step_factor = 2;
  int warmup_iterations = 1;
  int iterations = 20;
  int aggregated_iterations = 1;
  int validation = 1;  ///< Rounds of checking; 0: results are not checked.
  int unalign = 0;
  std::vector<NcclDevice> devices;
};

/// Bandwidth that the average must reach nine tenths of (NCCL_TESTS_MIN_BW); empty: unchecked.
using BandwidthFloor = std::optional<double>;

/// What decides the exit status.
struct NcclVerdict {
  int out_of_bounds = 0;            ///< Halves of rows with wrong elements.
  double busbw_GBps_average = 0.0;  ///< Over all halves of rows; 0 without rows.
  bool okay = true;                 ///< No wrong element, and the floor was reached.
};
NcclVerdict nccl_verdict(std::span<const NcclRow> rows, BandwidthFloor floor);

/// Text, each line ended by a newline.
std::string nccl_header(const NcclRun& run);
std::string nccl_row(const NcclRow& row);
std::string nccl_footer(const NcclRun& run, std::span<const NcclRow> rows, BandwidthFloor floor);

/// What only the JSON document tells.
struct NcclDocument {
  std::string start_time;  ///< "YYYY-MM-DD hh:mm:ss"
  std::string end_time;
  std::vector<std::string> args;
  std::vector<std::string> env;  ///< Only what concerns us: an environment holds secrets.
};

/// The document of `-J`, version 3. Like nccl-tests' own it gives booleans as strings ("true",
/// "unchecked") and a root as text, for that is what its readers compare with.
std::string nccl_json(const NcclRun& run, std::span<const NcclRow> rows, BandwidthFloor floor,
                      const NcclDocument& document);

}  // namespace sumcast::report
