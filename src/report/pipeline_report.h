// The page of `sumcast bench pipeline`: time lines of computing and sums, predicted and measured.
#pragma once

#include <string>
#include <vector>

namespace sumcast::report {

struct TimelineSpan {
  bool sum = false;  ///< A sum under way; else computing.
  double start_s = 0, end_s = 0;
};

struct PipelineEntry {
  std::string label;  ///< "pipe K=2, in-network, bf16".
  double step_s = 0;
  double predicted_s = 0, low_s = 0, high_s = 0;
  double idle_share = 0;
  std::vector<TimelineSpan> spans;  ///< Of one worker, on one clock.
};

/// One model on links of one rate.
struct PipelineSection {
  std::string heading;
  std::vector<PipelineEntry> entries;
};

struct PipelineReportData {
  std::vector<PipelineSection> sections;
  double error_median = 0, error_worst = 0;  ///< Of predictions, relative.
  std::string setting;                       ///< Machine, date, command.
};

/// Two lanes per entry - computing above, sums below - on one scale of time.
std::string timeline_chart(const PipelineSection& section);

/// Bars of measured step times, each with the prediction's interval across it.
std::string prediction_chart(const PipelineSection& section);

std::string pipeline_report_html(const PipelineReportData& data);

}  // namespace sumcast::report
