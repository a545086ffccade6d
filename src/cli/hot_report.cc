#include "cli/hot_report.h"

#include <fmt/format.h>

#include "report/html.h"
#include "report/svg.h"
#include "report/units.h"

namespace sumcast::cli {
namespace {

using report::HtmlTable;

std::string percent(double share) { return fmt::format("{:.3g} %", 100 * share); }

void add_skew(const HotStudy& study, report::HtmlPage& page) {
  report::LineSeries rows{"keys of rows", {}, {}}, batches{"keys of batches", {}, {}};
  HtmlTable numbers{"What the hottest keys take",
                    {{"hottest keys"}, {"of all keys"}, {"keys of rows"}, {"keys of batches"}},
                    {},
                    {}};
  for (size_t i = 0; i < study.curve.size(); ++i) {
    const auto& point = study.curve[i];
    for (report::LineSeries* series : {&rows, &batches}) series->x.push_back(100 * point.of_keys);
    rows.y.push_back(100 * point.of_rows);
    batches.y.push_back(100 * point.of_batches);
    if (i % 5 == 0) {
      numbers.rows.push_back({report::format_count(point.keys), percent(point.of_keys),
                              percent(point.of_rows), percent(point.of_batches)});
    }
  }
  page.section("How updates gather on few keys");
  page.figure(report::line_chart({"Share of the updates that the hottest keys take",
                                  "Curves that rise steeply and flatten where data is skewed.",
                                  "hottest keys, % of all",
                                  "updates, %",
                                  false,
                                  {rows, batches}}),
              fmt::format("Half of the updates of batches go to {} keys.",
                          report::format_count(study.keys_for_half_of_batches)),
              numbers);
}

void add_coverage(const HotStudy& study, report::HtmlPage& page) {
  report::LineSeries coverage{"coverage", {}, {}}, overlap{"overlap", {}, {}};
  HtmlTable numbers{"What samples find", {{"sample"}, {"coverage"}, {"overlap"}}, {}, {}};
  for (const SampledCoverage& row : study.coverage) {
    for (report::LineSeries* series : {&coverage, &overlap}) {
      series->x.push_back(100 * row.share);
    }
    coverage.y.push_back(row.quality.coverage);
    overlap.y.push_back(row.quality.overlap);
    numbers.rows.push_back({percent(row.share), fmt::format("{:.3f}", row.quality.coverage),
                            fmt::format("{:.2f}", row.quality.overlap)});
  }
  page.section("What a sample of the rows finds");
  page.figure(
      report::line_chart({"Coverage and overlap by size of the sample",
                          "Two rising curves: coverage above overlap where only the head is found.",
                          "sample, % of the rows",
                          "share",
                          false,
                          {coverage, overlap}}),
      fmt::format("Coverage: updates that the {} keys chosen take, against the true hottest. "
                  "Overlap: share of them among those.",
                  report::format_count(study.capacity)),
      numbers);
}

void add_packing(const HotStudy& study, report::HtmlPage& page) {
  HtmlTable table{"",
                  {{"placement, packing", report::Align::kLeft},
                   {"conflicts per key"},
                   {"packets per batch"},
                   {"passes per batch"},
                   {"fill"}},
                  {},
                  {}};
  for (const auto& row : study.packing.rows) {
    table.rows.push_back({row.method, fmt::format("{:.3f}", row.conflicts_per_key),
                          fmt::format("{:.1f}", row.packets_per_batch),
                          fmt::format("{:.1f}", row.passes_per_batch),
                          fmt::format("{:.3f}", row.fill)});
  }
  table.highlight = table.rows.size() - 1;
  page.section("Packing for register arrays");
  page.table(table);
}

}  // namespace

std::string hot_report(const HotOptions& options, const HotStudy& study) {
  report::HtmlPage page(
      fmt::format("Hot keys of {}", options.source),
      fmt::format("{} rows, {} keys, batches of {} rows, {} workers.",
                  report::format_count(study.rows), report::format_count(study.vocabulary),
                  options.batch, options.workers));
  const auto& traffic = study.measured.sent > 0 ? study.measured : study.predicted;
  page.key_figures(
      {{report::format_count(study.hot.size()), "keys worth a place",
        options.servers > 0 ? std::string("as suits the links best")
                            : fmt::format("expected fan-in of {:.3g} or more", options.fan_in_min)},
       {fmt::format("{:.3f}", study.hot_quality.coverage), "coverage",
        fmt::format("chosen from {} of the rows", percent(options.sample_share()))},
       {report::format_ratio(traffic.forward_saving()), "fewer keys reach the servers",
        fmt::format("fan-in of hot keys {}", report::format_ratio(traffic.fan_in()))}});
  add_skew(study, page);
  add_coverage(study, page);
  if (!study.packing.rows.empty()) add_packing(study, page);
  return std::move(page).finish(fmt::format("sumcast hot {}", options.source));
}

}  // namespace sumcast::cli
