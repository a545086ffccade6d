#include "report/svg.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

#include "report/svg_canvas.h"

namespace sumcast::report {

std::string escape_markup(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t') {
          out += "\xEF\xBF\xBD";
        } else {
          out += c;
        }
    }
  }
  return out;
}

std::vector<double> nice_ticks(double low, double high, int wanted) {
  const double rough = (high - low) / std::max(1, wanted - 1);
  const double power = std::pow(10.0, std::floor(std::log10(rough)));
  const double lead = rough / power;
  const double step = power * (lead < 1.5 ? 1.0 : lead < 3.5 ? 2.0 : lead < 7.5 ? 5.0 : 10.0);
  // Counted in steps, so that ticks are multiples and zero is exactly zero. The slack keeps a bound
  // that is a tick but for rounding from adding another one.
  const auto first = static_cast<int64_t>(std::floor(low / step + 1e-9));
  const auto last = static_cast<int64_t>(std::ceil(high / step - 1e-9));
  std::vector<double> ticks;
  for (int64_t i = first; i <= std::max(last, first + 1); ++i) {
    ticks.push_back(static_cast<double>(i) * step);
  }
  return ticks;
}

std::vector<double> log_ticks(double low, double high) {
  std::vector<double> ticks;
  const double decades = std::log10(high / low);
  const std::vector<double> leads = decades < 1.5   ? std::vector<double>{1, 2, 3, 5}
                                    : decades < 4.0 ? std::vector<double>{1, 2, 5}
                                                    : std::vector<double>{1};
  const auto first = static_cast<int>(std::floor(std::log10(low)));
  const auto last = static_cast<int>(std::ceil(std::log10(high)));
  for (int power = first; power <= last; ++power) {
    for (const double lead : leads) {
      // Dividing by a power of ten rounds once; multiplying by 0.1 would print 0.30000000000000004.
      const double tick = power >= 0 ? lead * std::pow(10.0, power) : lead / std::pow(10.0, -power);
      if (tick >= low * (1.0 - 1e-9) && tick <= high * (1.0 + 1e-9)) ticks.push_back(tick);
    }
  }
  return ticks;
}

std::string chart_style() {
  std::string light = "--ink:#1b1f24;--muted:#5b6470;--grid:#e3e6ea;--paper:#ffffff;";
  std::string dark = "--ink:#e8eaed;--muted:#a0a8b3;--grid:#333a42;--paper:#15181c;";
  std::string rules;
  // Okabe and Ito's blue, vermillion, green, purple, sky blue, orange; lightened on dark paper.
  constexpr std::array<std::string_view, kSeriesStyles> kLight = {"#0072b2", "#d55e00", "#00875f",
                                                                  "#a8548a", "#2f93c8", "#b77900"};
  constexpr std::array<std::string_view, kSeriesStyles> kDark = {"#4aa8e0", "#ff8a45", "#2fc79a",
                                                                 "#dd93c2", "#8ad0f5", "#f0b840"};
  for (size_t i = 0; i < kSeriesStyles; ++i) {
    light += fmt::format("--s{}:{};", i, kLight[i]);
    dark += fmt::format("--s{}:{};", i, kDark[i]);
    rules += fmt::format(".chart .l{0}{{stroke:var(--s{0})}}.chart .f{0}{{fill:var(--s{0})}}", i);
  }
  return fmt::format(
      ":root{{{}}}@media (prefers-color-scheme:dark){{:root{{{}}}}}@media print{{:root{{{}}}}}\n"
      ".chart{{width:100%;height:auto;font:13px system-ui,sans-serif;display:block}}"
      ".chart text{{fill:var(--muted)}}.chart .strong{{fill:var(--ink);font-weight:600}}"
      ".chart .grid{{stroke:var(--grid);stroke-width:1}}"
      ".chart .axis{{stroke:var(--muted);stroke-width:1}}"
      ".chart .reference{{stroke:var(--ink);stroke-width:1.5;stroke-dasharray:4 4}}"
      ".chart .leader{{stroke:var(--muted);stroke-width:.75;fill:none}}"
      ".chart .line{{fill:none;stroke-linejoin:round}}\n{}\n",
      light, dark, light, rules);
}

std::string svg_file(std::string_view element) {
  // The style goes inside the element, right behind its opening tag.
  const size_t open = element.find('>');
  if (open == std::string_view::npos) return {};
  return "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n" + std::string(element.substr(0, open + 1)) +
         "<style>" + chart_style() + ".chart{background:var(--paper)}</style>" +
         std::string(element.substr(open + 1)) + "\n";
}

}  // namespace sumcast::report
