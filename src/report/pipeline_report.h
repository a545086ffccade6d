// The page of `sumcast bench pipeline`: time lines of computing and sums, predicted and measured.
#pragma once

#include <optional>
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

/// Real training as a mode of the section trains, in the section's time.
struct AccuracyCurve {
  std::string label;             ///< As the entry's.
  std::vector<double> seconds;   ///< At the end of each epoch ...
  std::vector<double> accuracy;  ///< ... and what is right of the test set then, 0 to 1.
};

/// One model on links of one rate.
struct PipelineSection {
  std::string heading;
  std::vector<PipelineEntry> entries;
  std::vector<AccuracyCurve> curves;  ///< Empty: no picture of them.
  double target_accuracy = 0;         ///< 0 to 1; times to it are in the table.
  std::string training;               ///< What was trained, and how.
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

/// When the curve first reaches `target`, between epochs by a straight line; nothing if it never
/// does.
std::optional<double> seconds_to(const AccuracyCurve& curve, double target);

/// Accuracy over time, a line per curve.
std::string accuracy_chart(const PipelineSection& section);

std::string pipeline_report_html(const PipelineReportData& data);

}  // namespace sumcast::report
