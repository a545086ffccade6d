#include "report/pipeline_report.h"

#include <fmt/format.h>

#include <algorithm>

#include "report/html.h"
#include "report/svg.h"
#include "report/svg_canvas.h"
#include "report/units.h"

namespace sumcast::report {
namespace {

constexpr double kWidth = 900;
constexpr double kLabelWidth = 240;
constexpr double kRight = 80;
constexpr double kAxisHeight = 44, kLegendHeight = 28;

std::string time_text(double seconds) {
  return format_duration(Duration(static_cast<int64_t>(seconds * 1e9)));
}

struct Scale {
  double left = kLabelWidth;
  double pixels_per_second = 1;
  double at(double seconds) const { return left + seconds * pixels_per_second; }
};

/// Draws the axis from zero to `longest`; returns how seconds become pixels.
Scale draw_axis(SvgCanvas& canvas, double longest, double top, double bottom) {
  const std::vector<double> ticks = nice_ticks(0.0, longest, 6);
  Scale scale;
  scale.pixels_per_second = (kWidth - kLabelWidth - kRight) / ticks.back();
  for (const double tick : ticks) {
    canvas.line(scale.at(tick), top, scale.at(tick), bottom, "grid");
    canvas.text(scale.at(tick), bottom + 18, Anchor::kMiddle, time_text(tick));
  }
  return scale;
}

void draw_legend(SvgCanvas& canvas, std::initializer_list<const char*> names) {
  double x = kLabelWidth;
  size_t style = 0;
  for (const char* const name : names) {
    canvas.rectangle(x, 4, 14, 14, fmt::format("f{}", style++));
    canvas.text(x + 20, 16, Anchor::kStart, name);
    x += 44 + text_width(name) * 1.05;
  }
}

double first_start(const PipelineEntry& entry) {
  double first = entry.spans.front().start_s;
  for (const TimelineSpan& span : entry.spans) first = std::min(first, span.start_s);
  return first;
}

HtmlTable numbers_of(const PipelineSection& section) {
  HtmlTable table{
      "",
      {{"mode", Align::kLeft}, {"step"}, {"idle"}, {"predicted"}, {"low"}, {"high"}, {"error"}},
      {},
      {}};
  for (const PipelineEntry& e : section.entries) {
    table.rows.push_back({e.label, time_text(e.step_s), format_percent(e.idle_share),
                          time_text(e.predicted_s), time_text(e.low_s), time_text(e.high_s),
                          fmt::format("{:+.1f} %", 100 * (e.predicted_s / e.step_s - 1))});
  }
  return table;
}

HtmlTable accuracies_of(const PipelineSection& section) {
  HtmlTable table{"",
                  {{"mode", Align::kLeft},
                   {"after the last epoch"},
                   {"at"},
                   {fmt::format("time to {:.1f} %", 100 * section.target_accuracy)}},
                  {},
                  {}};
  for (const AccuracyCurve& curve : section.curves) {
    const auto reached = seconds_to(curve, section.target_accuracy);
    table.rows.push_back({curve.label, fmt::format("{:.1f} %", 100 * curve.accuracy.back()),
                          time_text(curve.seconds.back()),
                          reached ? time_text(*reached) : std::string("not reached")});
  }
  return table;
}

}  // namespace

std::optional<double> seconds_to(const AccuracyCurve& curve, double target) {
  for (size_t i = 0; i < curve.accuracy.size(); ++i) {
    if (!(curve.accuracy[i] >= target)) continue;
    if (i == 0) return curve.seconds[0];
    const double before = curve.accuracy[i - 1];
    const double share = (target - before) / (curve.accuracy[i] - before);
    return curve.seconds[i - 1] + share * (curve.seconds[i] - curve.seconds[i - 1]);
  }
  return std::nullopt;
}

std::string accuracy_chart(const PipelineSection& section) {
  LineChart chart;
  chart.title = "Accuracy over time";
  chart.description =
      "Accuracy of a real training after each epoch, over its steps times what a step of the mode "
      "took here.";
  chart.x_label = "seconds";
  chart.y_label = "accuracy, %";
  for (const AccuracyCurve& curve : section.curves) {
    LineSeries& series = chart.series.emplace_back();
    series.name = curve.label;
    series.x = curve.seconds;
    for (const double share : curve.accuracy) series.y.push_back(100 * share);
  }
  return line_chart(chart);
}

std::string timeline_chart(const PipelineSection& section) {
  constexpr double kLane = 11, kPitch = 36;
  double longest = 0;
  for (const PipelineEntry& entry : section.entries) {
    if (entry.spans.empty()) continue;
    const double first = first_start(entry);
    for (const TimelineSpan& span : entry.spans) longest = std::max(longest, span.end_s - first);
  }
  const double bottom = kLegendHeight + kPitch * static_cast<double>(section.entries.size());
  SvgCanvas canvas(kWidth, bottom + kAxisHeight, "Time line of one worker",
                   "For every mode the last steps of worker 0: when it computes, and when sums are "
                   "under way. Under a pipeline the two lie above each other.");
  if (!(longest > 0)) {
    canvas.text(kWidth / 2, 40, Anchor::kMiddle, "no data");
    return std::move(canvas).finish();
  }
  const Scale scale = draw_axis(canvas, longest, kLegendHeight, bottom);
  draw_legend(canvas, {"computing", "sum under way"});
  for (size_t i = 0; i < section.entries.size(); ++i) {
    const PipelineEntry& entry = section.entries[i];
    const double y = kLegendHeight + kPitch * static_cast<double>(i) + 5;
    canvas.text(kLabelWidth - 8, y + kLane + 4.5, Anchor::kEnd, entry.label, "strong");
    if (entry.spans.empty()) continue;
    const double first = first_start(entry);
    for (const TimelineSpan& span : entry.spans) {
      canvas.rectangle(scale.at(span.start_s - first), span.sum ? y + kLane + 2 : y,
                       std::max(0.5, (span.end_s - span.start_s) * scale.pixels_per_second), kLane,
                       span.sum ? "f1" : "f0",
                       fmt::format("{}: {}", span.sum ? "sum" : "computing",
                                   time_text(span.end_s - span.start_s)));
    }
  }
  return std::move(canvas).finish();
}

std::string prediction_chart(const PipelineSection& section) {
  constexpr double kBar = 16, kPitch = 28;
  double longest = 0;
  for (const PipelineEntry& e : section.entries) longest = std::max({longest, e.step_s, e.high_s});
  const double bottom = kLegendHeight + kPitch * static_cast<double>(section.entries.size());
  SvgCanvas canvas(kWidth, bottom + kAxisHeight, "Measured and predicted step times",
                   "A bar is what was measured. The line across it is the predicted interval, the "
                   "stroke in it the predicted time.");
  if (!(longest > 0)) {
    canvas.text(kWidth / 2, 40, Anchor::kMiddle, "no data");
    return std::move(canvas).finish();
  }
  const Scale scale = draw_axis(canvas, longest, kLegendHeight, bottom);
  draw_legend(canvas, {"measured; lines: predicted, with its interval"});
  for (size_t i = 0; i < section.entries.size(); ++i) {
    const PipelineEntry& e = section.entries[i];
    const double y = kLegendHeight + kPitch * static_cast<double>(i) + (kPitch - kBar) / 2;
    const double middle = y + kBar / 2;
    canvas.text(kLabelWidth - 8, middle + 4.5, Anchor::kEnd, e.label, "strong");
    canvas.rectangle(scale.at(0), y, e.step_s * scale.pixels_per_second, kBar, "f0",
                     fmt::format("{}: {}", e.label, time_text(e.step_s)));
    canvas.line(scale.at(e.low_s), middle, scale.at(e.high_s), middle, "axis");
    for (const double end : {e.low_s, e.high_s}) {
      canvas.line(scale.at(end), middle - 4, scale.at(end), middle + 4, "axis");
    }
    canvas.line(scale.at(e.predicted_s), y - 3, scale.at(e.predicted_s), y + kBar + 3, "reference");
    canvas.text(std::max(scale.at(e.step_s), scale.at(e.high_s)) + 8, middle + 4.5, Anchor::kStart,
                time_text(e.step_s), "strong");
  }
  return std::move(canvas).finish();
}

std::string pipeline_report_html(const PipelineReportData& data) {
  HtmlPage page("Pipelined training, measured and predicted",
                "Step times of every way to train, on links chosen so that a ring's all-reduce "
                "takes the given multiple of computing. Computing is real; predictions were "
                "written down before the first cell ran.");
  page.key_figures({{fmt::format("{:.1f} %", 100 * data.error_median),
                     "median error of the predicted step time", "over all cells"},
                    {fmt::format("{:.1f} %", 100 * data.error_worst), "worst error", ""}});
  for (const PipelineSection& section : data.sections) {
    page.section(section.heading);
    page.figure(timeline_chart(section),
                "The last steps of worker 0: computing above, sums below. An end of a sum is seen "
                "between two layers, or when it is waited for.",
                numbers_of(section));
    page.figure(prediction_chart(section), "Measured step times and predicted intervals.",
                numbers_of(section));
    if (section.curves.empty()) continue;
    page.figure(accuracy_chart(section), section.training, accuracies_of(section));
  }
  return std::move(page).finish(data.setting);
}

}  // namespace sumcast::report
