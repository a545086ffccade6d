// What a finished `sumcast bench pipeline` says of itself. Pure.
#pragma once

#include <string>
#include <vector>

#include "cli/pipe_bench.h"
#include "report/pipeline_report.h"

namespace sumcast::cli {

/// How predictions and choices turned out.
struct PipeVerdict {
  double error_median = 0, error_worst = 0;  ///< |predicted / measured - 1|.
  size_t decisions = 0;                      ///< One per model, workers, ratio and delay.
  size_t right = 0;        ///< The mode predicted to be best is within 3 % of the one that was.
  size_t disturbed = 0;    ///< Cells around which the machine was not as fast as before.
  double drift_worst = 0;  ///< |PipeRow::drift|.
};
PipeVerdict verdict_on(const std::vector<PipeRow>& rows);

/// A table per model, workers, ratio and delay, then headline ratios and the predictions' own
/// error.
std::string pipe_text(const std::vector<PipeRow>& rows);

/// Rows of one decision - model, workers, ratio, delay - together, in their order.
std::vector<std::vector<const PipeRow*>> decisions_of(const std::vector<PipeRow>& rows);

/// A section for each of decisions_of().
report::PipelineReportData pipe_report(const std::vector<PipeRow>& rows);

}  // namespace sumcast::cli
