// The line chart of svg.h.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/assert.h"
#include "report/svg.h"
#include "report/svg_canvas.h"

namespace sumcast::report {
namespace {

constexpr double kWidth = 900, kHeight = 400;
constexpr double kLeft = 64, kTop = 16, kBottom = 48;
/// Distance of the labels at the lines' ends, so that they do not overlap.
constexpr double kLabelPitch = 18;

/// A range of values laid onto a range of pixels.
struct Axis {
  double low = 0, high = 1;
  double pixel_low = 0, pixel_high = 1;
  bool logarithmic = false;
  std::vector<double> ticks;

  double at(double value) const {
    const auto f = [this](double v) { return logarithmic ? std::log10(v) : v; };
    return pixel_low + (f(value) - f(low)) / (f(high) - f(low)) * (pixel_high - pixel_low);
  }
};

struct Bounds {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
  void add(double value) {
    if (!std::isfinite(value)) return;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  bool empty() const { return low > high; }
};

Axis linear_axis(Bounds bounds, double pixel_low, double pixel_high, int ticks) {
  if (bounds.low == bounds.high) bounds.high += bounds.low == 0.0 ? 1.0 : std::abs(bounds.low);
  Axis axis{bounds.low, bounds.high, pixel_low,
            pixel_high, false,       nice_ticks(bounds.low, bounds.high, ticks)};
  return axis;
}

/// A step's axis ends at its last step; ticks beyond it would lie outside the plot.
Axis x_axis(const Bounds& bounds, double pixel_low, double pixel_high) {
  Axis axis = linear_axis(bounds, pixel_low, pixel_high, 8);
  std::erase_if(axis.ticks, [&](double t) { return t < axis.low || t > axis.high; });
  return axis;
}

Axis y_axis(const Bounds& bounds, bool logarithmic, double pixel_low, double pixel_high) {
  if (logarithmic && bounds.low > 0.0) {
    Axis axis{bounds.low / 1.08, bounds.high * 1.08, pixel_low, pixel_high, true, {}};
    axis.ticks = log_ticks(axis.low, axis.high);
    if (axis.ticks.size() >= 2) return axis;
  }
  Axis axis = linear_axis(bounds, pixel_low, pixel_high, 6);
  axis.low = axis.ticks.front();
  axis.high = axis.ticks.back();
  return axis;
}

std::string path_of(const LineSeries& series, const Axis& x, const Axis& y) {
  std::string path;
  bool pen_down = false;
  for (size_t i = 0; i < series.x.size(); ++i) {
    if (!std::isfinite(series.x[i]) || !std::isfinite(series.y[i])) {
      pen_down = false;
      continue;
    }
    path +=
        fmt::format("{}{:.1f} {:.1f}", pen_down ? "L" : "M", x.at(series.x[i]), y.at(series.y[i]));
    pen_down = true;
  }
  return path;
}

/// Earlier lines are wide and solid, later ones thin and dashed: where they coincide, all show.
struct Stroke {
  double width;
  std::string_view dashes;
};
Stroke stroke_of(size_t index, size_t count) {
  constexpr std::array<std::string_view, kSeriesStyles> kDashes = {"",    "14 7",    "9 9",
                                                                   "2 6", "9 4 2 4", "4 10"};
  const double width = 2.0 + 4.5 * static_cast<double>(count - 1 - index) /
                                 static_cast<double>(std::max<size_t>(count, 5) - 1);
  return {width, kDashes[index % kSeriesStyles]};
}

/// Where labels go: as near to the wanted heights as their pitch and the plot allow.
std::vector<double> spread(const std::vector<double>& wanted, double top, double bottom) {
  std::vector<size_t> order(wanted.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, {}, [&](size_t i) { return wanted[i]; });
  std::vector<double> placed = wanted;
  double limit = top;
  for (const size_t i : order) limit = (placed[i] = std::max(placed[i], limit)) + kLabelPitch;
  limit = bottom;
  for (auto i = order.rbegin(); i != order.rend(); ++i) {
    limit = (placed[*i] = std::min(placed[*i], limit)) - kLabelPitch;
  }
  return placed;
}

/// Name and a sample of the stroke beside each line's end, joined to it by a thin leader.
void draw_labels(SvgCanvas& canvas, const LineChart& chart, const Axis& x, const Axis& y) {
  std::vector<size_t> drawn;
  std::vector<double> ends;
  for (size_t i = 0; i < chart.series.size(); ++i) {
    const auto& values = chart.series[i].y;
    const auto last = std::find_if(values.rbegin(), values.rend(),
                                   [](double value) { return std::isfinite(value); });
    if (last == values.rend()) continue;
    drawn.push_back(i);
    ends.push_back(y.at(*last));
  }
  const std::vector<double> heights = spread(ends, y.pixel_high + 6, y.pixel_low - 6);
  const double edge = x.pixel_high;
  for (size_t k = 0; k < drawn.size(); ++k) {
    const size_t i = drawn[k];
    canvas.path(fmt::format("M{:.1f} {:.1f}L{:.1f} {:.1f}L{:.1f} {:.1f}", edge + 2, ends[k],
                            edge + 14, heights[k], edge + 18, heights[k]),
                "leader", 0.75);
    const Stroke stroke = stroke_of(i, chart.series.size());
    canvas.path(fmt::format("M{:.1f} {:.1f}h34", edge + 20, heights[k]),
                fmt::format("line l{}", i % kSeriesStyles), stroke.width, stroke.dashes);
    canvas.text(edge + 60, heights[k] + 4.5, Anchor::kStart, chart.series[i].name, "strong");
  }
}

}  // namespace

std::string line_chart(const LineChart& chart) {
  SvgCanvas canvas(kWidth, kHeight, chart.title, chart.description);
  Bounds x_bounds, y_bounds;
  double label_width = 0;
  for (const LineSeries& series : chart.series) {
    SUMCAST_ASSERT(series.x.size() == series.y.size());
    for (const double value : series.x) x_bounds.add(value);
    for (const double value : series.y) y_bounds.add(value);
    label_width = std::max(label_width, text_width(series.name));
  }
  if (x_bounds.empty() || y_bounds.empty()) {
    canvas.text(kWidth / 2, kHeight / 2, Anchor::kMiddle, "no data");
    return std::move(canvas).finish();
  }
  const double right = kWidth - std::min(label_width * 1.1 + 70, kWidth / 2);
  const double bottom = kHeight - kBottom;
  const Axis x = x_axis(x_bounds, kLeft, right);
  const Axis y = y_axis(y_bounds, chart.log_y, bottom, kTop);
  for (const double tick : y.ticks) {
    canvas.line(kLeft, y.at(tick), right, y.at(tick), "grid");
    canvas.text(kLeft - 8, y.at(tick) + 4.5, Anchor::kEnd, fmt::format("{:.6g}", tick));
  }
  for (const double tick : x.ticks) {
    canvas.line(x.at(tick), bottom, x.at(tick), bottom + 5, "axis");
    canvas.text(x.at(tick), bottom + 20, Anchor::kMiddle, fmt::format("{:.6g}", tick));
  }
  canvas.line(kLeft, bottom, right, bottom, "axis");
  canvas.text((kLeft + right) / 2, kHeight - 8, Anchor::kMiddle, chart.x_label);
  canvas.vertical_text(16, (kTop + bottom) / 2, chart.y_label);
  for (size_t i = 0; i < chart.series.size(); ++i) {
    const Stroke stroke = stroke_of(i, chart.series.size());
    canvas.path(path_of(chart.series[i], x, y), fmt::format("line l{}", i % kSeriesStyles),
                stroke.width, stroke.dashes);
  }
  draw_labels(canvas, chart, x, y);
  return std::move(canvas).finish();
}

}  // namespace sumcast::report
