#include "report/svg_canvas.h"

#include "report/svg.h"
#include "report/table.h"

namespace sumcast::report {

SvgCanvas::SvgCanvas(double width, double height, std::string_view title,
                     std::string_view description)
    : out_(fmt::format("<svg class=\"chart\" xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" "
                       "viewBox=\"0 0 {:.6g} {:.6g}\" aria-label=\"{}\">"
                       "<title>{}</title><desc>{}</desc>\n",
                       width, height, escape_markup(fmt::format("{}. {}", title, description)),
                       escape_markup(title), escape_markup(description))) {}

void SvgCanvas::line(double x1, double y1, double x2, double y2, std::string_view css_class) {
  out_ +=
      fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" class=\"{}\"/>\n",
                  x1, y1, x2, y2, css_class);
}

void SvgCanvas::text(double x, double y, Anchor anchor, std::string_view text,
                     std::string_view css_class) {
  constexpr std::array<std::string_view, 3> kAnchors = {"start", "middle", "end"};
  out_ += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\"{}>{}</text>\n", x, y,
                      kAnchors[static_cast<size_t>(anchor)],
                      css_class.empty() ? "" : fmt::format(" class=\"{}\"", css_class),
                      escape_markup(text));
}

void SvgCanvas::vertical_text(double x, double y, std::string_view text) {
  out_ += fmt::format(
      "<text transform=\"translate({:.1f} {:.1f}) rotate(-90)\" text-anchor=\"middle\">{}</text>\n",
      x, y, escape_markup(text));
}

void SvgCanvas::rectangle(double x, double y, double width, double height,
                          std::string_view css_class, std::string_view tooltip) {
  out_ += fmt::format(
      "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" class=\"{}\">", x, y,
      width, height, css_class);
  if (!tooltip.empty()) out_ += fmt::format("<title>{}</title>", escape_markup(tooltip));
  out_ += "</rect>\n";
}

void SvgCanvas::path(std::string_view path, std::string_view css_class, double stroke_width,
                     std::string_view dashes) {
  out_ += fmt::format("<path d=\"{}\" class=\"{}\" stroke-width=\"{:.2f}\"{}/>\n", path, css_class,
                      stroke_width,
                      dashes.empty() ? "" : fmt::format(" stroke-dasharray=\"{}\"", dashes));
}

std::string SvgCanvas::finish() && {
  out_ += "</svg>";
  return std::move(out_);
}

double text_width(std::string_view text) { return 7.0 * static_cast<double>(display_width(text)); }

}  // namespace sumcast::report
