// The bar chart of svg.h: horizontal, so that names are read without turning one's head.
#include <algorithm>
#include <numeric>

#include "base/assert.h"
#include "report/svg.h"
#include "report/svg_canvas.h"

namespace sumcast::report {
namespace {

constexpr double kWidth = 900;
constexpr double kBarHeight = 22, kPitch = 34;
constexpr double kAxisHeight = 46;
constexpr double kLegendHeight = 28;

double total_of(const Bar& bar) { return std::accumulate(bar.parts.begin(), bar.parts.end(), 0.0); }

void draw_legend(SvgCanvas& canvas, const BarChart& chart, double left) {
  double x = left;
  for (size_t part = 0; part < chart.parts.size(); ++part) {
    canvas.rectangle(x, 4, 14, 14, fmt::format("f{}", part % kSeriesStyles));
    canvas.text(x + 20, 16, Anchor::kStart, chart.parts[part]);
    x += 20 + text_width(chart.parts[part]) * 1.05 + 24;
  }
}

/// Segments with hair-wide gaps of paper between them, so that they part in black and white too.
void draw_bar(SvgCanvas& canvas, const BarChart& chart, const Bar& bar, double left, double y,
              double pixels_per_unit) {
  double x = left;
  for (size_t part = 0; part < bar.parts.size(); ++part) {
    const double width = bar.parts[part] * pixels_per_unit;
    const bool last = part + 1 == bar.parts.size();
    canvas.rectangle(
        x, y, std::max(0.0, last ? width : width - 1.5), kBarHeight,
        fmt::format("f{}", part % kSeriesStyles),
        fmt::format("{}, {}: {}", bar.label, chart.parts[part], chart.format(bar.parts[part])));
    x += width;
  }
  canvas.text(x + 8, y + kBarHeight / 2 + 4.5, Anchor::kStart, chart.format(total_of(bar)),
              "strong");
}

}  // namespace

std::string bar_chart(const BarChart& chart) {
  SUMCAST_ASSERT(chart.format != nullptr);
  const double top = (chart.parts.size() > 1 ? kLegendHeight : 0) + (chart.reference ? 20 : 0);
  const double bottom = top + kPitch * static_cast<double>(chart.bars.size());
  double highest = chart.reference.value_or(0.0), label_width = 40, value_width = 0;
  for (const Bar& bar : chart.bars) {
    SUMCAST_ASSERT(bar.parts.size() == chart.parts.size());
    highest = std::max(highest, total_of(bar));
    label_width = std::max(label_width, text_width(bar.label) * 1.1);
    value_width = std::max(value_width, text_width(chart.format(total_of(bar))) * 1.15);
  }
  SvgCanvas canvas(kWidth, std::max(bottom, 60.0) + kAxisHeight, chart.title, chart.description);
  if (!(highest > 0.0)) {
    canvas.text(kWidth / 2, 40, Anchor::kMiddle, "no data");
    return std::move(canvas).finish();
  }
  const double left = std::min(label_width + 12, kWidth / 3);
  const std::vector<double> ticks = nice_ticks(0.0, highest, 6);
  const double scale = (kWidth - left - value_width - 12) / ticks.back();
  for (const double tick : ticks) {
    const double x = left + tick * scale;
    canvas.line(x, top, x, bottom, "grid");
    canvas.text(x, bottom + 18, Anchor::kMiddle, chart.format(tick));
  }
  canvas.text((left + kWidth) / 2, bottom + kAxisHeight - 6, Anchor::kMiddle, chart.x_label);
  if (chart.parts.size() > 1) draw_legend(canvas, chart, left);
  for (size_t i = 0; i < chart.bars.size(); ++i) {
    const double y = top + kPitch * static_cast<double>(i) + (kPitch - kBarHeight) / 2;
    canvas.text(left - 8, y + kBarHeight / 2 + 4.5, Anchor::kEnd, chart.bars[i].label, "strong");
    draw_bar(canvas, chart, chart.bars[i], left, y, scale);
  }
  canvas.line(left, top, left, bottom, "axis");
  if (chart.reference) {
    const double x = left + *chart.reference * scale;
    canvas.line(x, top - 4, x, bottom, "reference");
    canvas.text(x, top - 9, Anchor::kMiddle, chart.reference_label);
  }
  return std::move(canvas).finish();
}

}  // namespace sumcast::report
