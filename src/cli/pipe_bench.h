// `sumcast bench pipeline`: what every way to train takes per step on links chosen by ratio, beside
// what the planner said before.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cli/pipe_cell.h"
#include "report/progress.h"

namespace sumcast::cli {

struct PipeBenchOptions {
  int workers = 4;                              ///< 2..16.
  std::vector<std::string> models = {"mlp"};    ///< Names of workload_layers().
  std::vector<double> ratios = {0.5, 1, 2, 4};  ///< Ring's time over computing; above 0.
  bool quick = false;                           ///< Fewer modes, shorter cells.
  bool json = false;
  std::string report;  ///< HTML file; empty: none.
  std::string
      predictions;  ///< Where predictions are written before the first cell; empty: nowhere.

  /// All that is wrong, one line each.
  std::vector<std::string> validate() const;
};

/// One measured cell beside its prediction.
struct PipeRow {
  std::string model;
  plan::Mode mode;
  double ratio = 0;
  uint32_t workers = 0;
  uint64_t rate_bps = 0;
  double compute_s = 0;  ///< Of a synchronous step, all workers computing.
  plan::Prediction predicted;
  double step_s = 0;  ///< 0: not measured yet.
  double idle_share = 0;
  std::vector<PipeSpan> spans;  ///< Of worker 0.
};

/// "server" where the server is the algorithm, else the schedule's name.
std::string_view mode_name(const plan::Mode& mode);
/// One object on one line, without a newline.
std::string to_json_line(const PipeRow& row);

using PipeRowFn = std::function<void(const PipeRow&)>;
/// Calibrates, writes predictions, then runs all cells. Rows are handed on as they are measured.
Result<std::vector<PipeRow>> run_pipe_bench(const PipeBenchOptions& options,
                                            report::Progress& progress, const PipeRowFn& on_row);

}  // namespace sumcast::cli
