// `sumcast bench pipeline`: what every way to train takes per step on links chosen by ratio, beside
// what the planner said before.
//
// Cells come in blocks of one model, one number of workers and one delay. A block's predictions are
// all made, and written down, before its first cell runs. With a results file a run can be stopped
// and taken up: predictions that it holds are not made again, cells that it holds not measured
// again. A block that gets a new cell (another ratio, --quick taken away) is predicted and measured
// anew.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/pipe_row.h"
#include "report/progress.h"

namespace sumcast::cli {

struct PipeBenchOptions {
  std::vector<uint32_t> workers = {4};           ///< Each 2..16.
  std::vector<std::string> models = {"mlp"};     ///< Names of workload_layers().
  std::vector<double> ratios = {0.5, 1, 2, 4};   ///< Ring's time over computing; above 0.
  std::vector<Duration> delays = {Duration{0}};  ///< Of every datagram, each way; below 1 s.
  PipeScope scope = PipeScope::kAll;
  bool json = false;
  std::string report;       ///< HTML file; empty: none.
  std::string accuracy;     ///< Results of bench convergence that the report shows; empty: none.
  std::string predictions;  ///< Where predictions are appended before a block's first cell.
  std::string results;      ///< Predictions and cells are appended here, and taken up from here.
  std::optional<Duration> patience;  ///< No set of links is begun later than this; unset: all run.

  /// What a run of all decisions measures, one after the other, with this one's files: enough to
  /// say how often the predicted best is the best. Its models, ratios and delays are not looked at.
  std::vector<PipeBenchOptions> decisions() const;
  /// All that is wrong, one line each.
  std::vector<std::string> validate() const;
};

struct PipeOutcome {
  std::vector<PipeRow> rows;  ///< Measured ones, in the order of blocks, ratios and modes.
  size_t left = 0;            ///< Cells that were not measured for want of time, at least.
};

using PipeRowFn = std::function<void(const PipeRow&)>;
/// Rows are handed on as they are measured; those from the results file are not.
Result<PipeOutcome> run_pipe_bench(const PipeBenchOptions& options, report::Progress& progress,
                                   const PipeRowFn& on_row);

}  // namespace sumcast::cli
