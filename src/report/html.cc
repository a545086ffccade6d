#include "report/html.h"

#include <fmt/format.h>

#include "base/assert.h"
#include "report/svg.h"

namespace sumcast::report {
namespace {

constexpr std::string_view kStyle = R"(
*{box-sizing:border-box}
html{background:var(--paper);color:var(--ink);color-scheme:light dark}
body{font:16px/1.55 system-ui,-apple-system,"Segoe UI",sans-serif;max-width:980px;margin:0 auto;
padding:40px 28px 64px}
h1{font-size:30px;line-height:1.2;letter-spacing:-.01em;margin:0 0 12px}
h2{font-size:20px;margin:48px 0 12px}
p,li{max-width:72ch}
.intro{font-size:18px;color:var(--muted);margin:0 0 28px}
.key{display:grid;grid-template-columns:repeat(auto-fit,minmax(190px,1fr));gap:1px;padding:1px;
background:var(--grid);border-radius:8px;overflow:hidden;margin:28px 0}
.key div{background:var(--paper);padding:18px 20px}
.key dt,.key dd{margin:0;display:block}
.key .v{font-size:32px;font-weight:650;line-height:1.15;font-variant-numeric:tabular-nums}
.key .d{color:var(--muted);font-size:13px;margin-top:4px}
.scroll{overflow-x:auto}
table{border-collapse:collapse;width:100%;font-size:14.5px;font-variant-numeric:tabular-nums}
caption{text-align:left;color:var(--muted);font-size:14px;padding-bottom:8px}
th,td{text-align:left;padding:8px 12px 8px 0;border-bottom:1px solid var(--grid);
vertical-align:top}
thead th{color:var(--muted);font-weight:500;border-bottom:1px solid var(--muted)}
tbody th{font-weight:600;white-space:nowrap}
.n{text-align:right;white-space:nowrap}
tr.hl>*{background:color-mix(in srgb,var(--s0) 10%,transparent)}
tr.hl>:first-child{box-shadow:inset 3px 0 0 var(--s0);padding-left:10px}
figure{margin:24px 0 32px}
figcaption{font-size:15px;margin-bottom:12px;max-width:72ch}
details{margin-top:8px;font-size:14px}
summary{cursor:pointer;color:var(--muted)}
.facts{display:grid;grid-template-columns:max-content 1fr;gap:6px 24px;font-size:14.5px;margin:0}
.facts dt{color:var(--muted)}
.facts dd{margin:0;overflow-wrap:anywhere}
footer{margin-top:56px;padding-top:14px;border-top:1px solid var(--grid);color:var(--muted);
font-size:13px}
@media print{body{max-width:none;padding:0;font-size:11pt}h2{break-after:avoid}
figure,tr,.key{break-inside:avoid}details{display:none}}
)";

std::string_view class_of(const Column& column) {
  return column.align == Align::kRight ? " class=\"n\"" : "";
}

std::string markup_of(const HtmlTable& table) {
  std::string out = "<div class=\"scroll\"><table>";
  if (!table.caption.empty()) {
    out += fmt::format("<caption>{}</caption>", escape_markup(table.caption));
  }
  out += "<thead><tr>";
  for (const Column& column : table.columns) {
    out +=
        fmt::format("<th scope=\"col\"{}>{}</th>", class_of(column), escape_markup(column.title));
  }
  out += "</tr></thead>\n<tbody>";
  for (size_t row = 0; row < table.rows.size(); ++row) {
    const auto& cells = table.rows[row];
    SUMCAST_ASSERT(cells.size() == table.columns.size());
    out += table.highlight == row ? "<tr class=\"hl\">" : "<tr>";
    for (size_t i = 0; i < cells.size(); ++i) {
      const std::string_view tag = i == 0 ? "th" : "td";
      out += fmt::format("<{}{}{}>{}</{}>", tag, i == 0 ? " scope=\"row\"" : "",
                         class_of(table.columns[i]), escape_markup(cells[i]), tag);
    }
    out += "</tr>\n";
  }
  return out + "</tbody></table></div>\n";
}

}  // namespace

HtmlPage::HtmlPage(std::string_view title, std::string_view introduction)
    : out_(fmt::format("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
                       "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
                       "<title>{0}</title>\n<style>{1}{2}</style></head>\n<body><main>\n"
                       "<h1>{0}</h1>\n<p class=\"intro\">{3}</p>\n",
                       escape_markup(title), chart_style(), kStyle, escape_markup(introduction))) {}

void HtmlPage::key_figures(const std::vector<KeyFigure>& figures) {
  if (figures.empty()) return;
  out_ += "<dl class=\"key\">";
  for (const KeyFigure& figure : figures) {
    out_ += fmt::format("<div><dt class=\"v\">{}</dt><dd>{}</dd><dd class=\"d\">{}</dd></div>\n",
                        escape_markup(figure.value), escape_markup(figure.label),
                        escape_markup(figure.detail));
  }
  out_ += "</dl>\n";
}

void HtmlPage::section(std::string_view heading) {
  out_ += fmt::format("<h2>{}</h2>\n", escape_markup(heading));
}

void HtmlPage::paragraph(std::string_view text) {
  out_ += fmt::format("<p>{}</p>\n", escape_markup(text));
}

void HtmlPage::list(const std::vector<std::string>& items) {
  if (items.empty()) return;
  out_ += "<ul>";
  for (const std::string& item : items) {
    out_ += fmt::format("<li>{}</li>\n", escape_markup(item));
  }
  out_ += "</ul>\n";
}

void HtmlPage::table(const HtmlTable& table) { out_ += markup_of(table); }

void HtmlPage::figure(std::string_view svg, std::string_view caption, const HtmlTable& numbers) {
  out_ += fmt::format(
      "<figure><figcaption>{}</figcaption>\n{}\n<details><summary>The numbers</summary>{}"
      "</details></figure>\n",
      escape_markup(caption), svg, markup_of(numbers));
}

void HtmlPage::facts(const std::vector<std::pair<std::string, std::string>>& facts) {
  if (facts.empty()) return;
  out_ += "<dl class=\"facts\">";
  for (const auto& [term, what] : facts) {
    out_ += fmt::format("<dt>{}</dt><dd>{}</dd>\n", escape_markup(term), escape_markup(what));
  }
  out_ += "</dl>\n";
}

std::string HtmlPage::finish(std::string_view footer) && {
  out_ += fmt::format("</main><footer>{}</footer></body></html>\n", escape_markup(footer));
  return std::move(out_);
}

}  // namespace sumcast::report
