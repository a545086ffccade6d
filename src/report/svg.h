// Line and bar charts as SVG, to stand inside an HTML page or in a file of their own.
//
// Colours are names of CSS variables, set once by chart_style() for light and dark, so a chart
// follows its page. Series are told apart three times over - colour (Okabe and Ito's palette, safe
// for colour-blind readers), dash pattern, and a label at the line's end - because runs that are
// bit for bit equal draw the same line: each later line is thinner and dashed, so that the ones
// below show through. Every chart carries a title and a description for screen readers.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sumcast::report {

/// `text` with & < > " ' made harmless, for element content and quoted attributes. Control
/// characters that XML forbids become U+FFFD.
std::string escape_markup(std::string_view text);

/// Round numbers (1, 2 or 5 times a power of ten apart) from at or below `low` to at or above
/// `high`, about `wanted` of them; at least two. `low` < `high`, both finite.
std::vector<double> nice_ticks(double low, double high, int wanted);

/// Powers of ten within [low, high] and, over few decades, 2, 3 and 5 times them; both above zero.
std::vector<double> log_ticks(double low, double high);

struct LineSeries {
  std::string name;
  std::vector<double> x;
  std::vector<double> y;  ///< As long as x. Non-finite points leave a gap.
};

struct LineChart {
  std::string title;        ///< For screen readers and as the file's title.
  std::string description;  ///< One or two sentences: what a person who cannot see it should know.
  std::string x_label;
  std::string y_label;
  bool log_y = false;  ///< Falls back to linear if a value is not above zero.
  std::vector<LineSeries> series;
};

struct Bar {
  std::string label;
  std::vector<double> parts;  ///< Stacked from the left, one per entry of BarChart::parts.
};

struct BarChart {
  std::string title;
  std::string description;
  std::string x_label;
  std::vector<std::string> parts;             ///< Names in the legend; a single one has none.
  std::vector<Bar> bars;                      ///< From top to bottom.
  std::function<std::string(double)> format;  ///< Of ticks and of the totals behind the bars.
  std::optional<double> reference;            ///< A dashed vertical line ...
  std::string reference_label;                ///< ... and what it is.
};

/// An <svg> element. Charts without a point or bar give one that says "no data".
std::string line_chart(const LineChart& chart);
std::string bar_chart(const BarChart& chart);

/// The style sheet that the elements above need, once per page.
std::string chart_style();

/// `element` as a file: XML header and style included. Opens in a browser or an image viewer.
std::string svg_file(std::string_view element);

}  // namespace sumcast::report
