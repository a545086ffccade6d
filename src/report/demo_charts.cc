#include "report/demo_charts.h"

#include <fmt/format.h>

#include <algorithm>

#include "report/units.h"

namespace sumcast::report {
namespace {

double seconds(Duration span) { return std::chrono::duration<double>(span).count(); }

std::string format_seconds(double value) {
  return format_duration(Duration{static_cast<int64_t>(value * 1e9)});
}

double mean_around(const std::vector<float>& values, size_t centre) {
  const size_t first = centre < kLossSmoothing / 2 ? 0 : centre - kLossSmoothing / 2;
  const size_t last = std::min(values.size(), centre + kLossSmoothing / 2 + 1);
  double sum = 0.0;
  for (size_t i = first; i < last; ++i) sum += values[i];
  return sum / static_cast<double>(last - first);
}

}  // namespace

LineChart loss_chart(const DemoReportData& data) {
  LineChart chart{"Training loss by step",
                  fmt::format("One falling curve for each of {} methods.", data.methods.size()),
                  "training step",
                  "loss (logarithmic)",
                  true,
                  {}};
  for (const DemoMethod& method : data.methods) {
    LineSeries series{method.name, {}, {}};
    for (size_t step = 0; step < method.losses.size(); ++step) {
      series.x.push_back(static_cast<double>(step + 1));
      series.y.push_back(mean_around(method.losses, step));
    }
    chart.series.push_back(std::move(series));
  }
  return chart;
}

HtmlTable loss_numbers(const DemoReportData& data) {
  HtmlTable table{"Loss, averaged around the step", {{"step", Align::kLeft}}, {}, {}};
  size_t steps = 0;
  for (const DemoMethod& method : data.methods) {
    table.columns.push_back({method.name});
    steps = std::max(steps, method.losses.size());
  }
  constexpr size_t kRows = 12;
  std::vector<size_t> chosen;
  for (size_t row = 0; steps > 0 && row < kRows; ++row) {
    const size_t step = (steps - 1) * row / (kRows - 1);
    if (chosen.empty() || chosen.back() != step) chosen.push_back(step);
  }
  for (const size_t step : chosen) {
    std::vector<std::string> cells = {std::to_string(step + 1)};
    for (const DemoMethod& method : data.methods) {
      const bool ran = step < method.losses.size();
      cells.push_back(ran ? fmt::format("{:.3f}", mean_around(method.losses, step)) : "-");
    }
    table.rows.push_back(std::move(cells));
  }
  return table;
}

BarChart time_chart(const DemoReportData& data) {
  BarChart chart{"Time per step by method",
                 "Stacked bars: computation, then communication.",
                 "median time of a step",
                 {"computation", "communication"},
                 {},
                 format_seconds,
                 {},
                 {}};
  for (const DemoMethod& method : data.methods) {
    const double communication = seconds(method.communication);
    chart.bars.push_back(
        {method.name, {std::max(0.0, seconds(method.step) - communication), communication}});
  }
  return chart;
}

HtmlTable time_numbers(const DemoReportData& data) {
  HtmlTable table{"Median times of a step",
                  {{"method", Align::kLeft}, {"computation"}, {"communication"}, {"step"}},
                  {},
                  {}};
  for (const DemoMethod& method : data.methods) {
    table.rows.push_back({method.name, format_duration(method.step - method.communication),
                          format_duration(method.communication), format_duration(method.step)});
  }
  return table;
}

BarChart bytes_chart(const DemoReportData& data) {
  BarChart chart{"Bytes sent by each worker in a step",
                 "One bar for each method; a dashed line marks the size of the gradient.",
                 "bytes sent per worker and step",
                 {"sent"},
                 {},
                 format_bytes,
                 {},
                 {}};
  for (const DemoMethod& method : data.methods) {
    chart.bars.push_back({method.name, {static_cast<double>(method.bytes_per_worker)}});
  }
  if (data.gradient_bytes > 0 && !data.methods.empty()) {
    const auto bytes = static_cast<double>(data.gradient_bytes);
    chart.reference = bytes;
    chart.reference_label = fmt::format("the gradient itself, {}", format_bytes(bytes));
  }
  return chart;
}

HtmlTable bytes_numbers(const DemoReportData& data) {
  HtmlTable table{"Bytes sent per worker and step",
                  {{"method", Align::kLeft}, {"bytes"}, {"of the gradient"}},
                  {},
                  {}};
  for (const DemoMethod& method : data.methods) {
    const double share = data.gradient_bytes == 0 ? 0.0
                                                  : static_cast<double>(method.bytes_per_worker) /
                                                        static_cast<double>(data.gradient_bytes);
    table.rows.push_back(
        {method.name, format_count(method.bytes_per_worker), fmt::format("{:.2f}x", share)});
  }
  return table;
}

}  // namespace sumcast::report
