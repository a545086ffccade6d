// What both kinds of chart draw with: elements appended to a string, coordinates in pixels of a
// view box. Text is escaped here and nowhere else.
#pragma once

#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

namespace sumcast::report {

/// Colours that chart_style() defines; series beyond them start over with the next dash pattern.
inline constexpr size_t kSeriesStyles = 6;

enum class Anchor : uint8_t { kStart, kMiddle, kEnd };

class SvgCanvas {
 public:
  /// `id` is unique in a page: it ties the element to its title and description.
  SvgCanvas(double width, double height, std::string_view title, std::string_view description);

  void line(double x1, double y1, double x2, double y2, std::string_view css_class);
  void text(double x, double y, Anchor anchor, std::string_view text,
            std::string_view css_class = {});
  /// Turned by 90 degrees, reading upwards, centred on (x, y).
  void vertical_text(double x, double y, std::string_view text);
  void rectangle(double x, double y, double width, double height, std::string_view css_class,
                 std::string_view tooltip = {});
  /// `path` is SVG path data; `dashes` may be empty.
  void path(std::string_view path, std::string_view css_class, double stroke_width,
            std::string_view dashes = {});

  /// The closed element.
  std::string finish() &&;

 private:
  std::string out_;
};

/// Pixels that `text` takes at the charts' 13 px, roughly: enough to leave room for it.
double text_width(std::string_view text);

}  // namespace sumcast::report
