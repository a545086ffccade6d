#include "report/svg.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "report/markup_checker.h"
#include "report/units.h"

namespace sumcast::report {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

TEST(MarkupChecker, FindsWhatItIsThereFor) {
  EXPECT_EQ(markup_problem("<a b=\"c\"><br><d/>x &amp; y</a>"), "");
  EXPECT_NE(markup_problem("<a><b></a></b>"), "");
  EXPECT_NE(markup_problem("<a>x & y</a>"), "");
  EXPECT_NE(markup_problem("<a b=\"c>x</a>"), "");
  EXPECT_NE(markup_problem("<a>"), "");
}

TEST(EscapeMarkup, LeavesNothingThatCouldEndTextOrAttribute) {
  EXPECT_EQ(escape_markup("a<b>&\"c'"), "a&lt;b&gt;&amp;&quot;c&#39;");
  EXPECT_EQ(escape_markup("x\x01y\n"), "x\uFFFDy\n");
  EXPECT_EQ(escape_markup("Zürich"), "Zürich");
}

TEST(NiceTicks, AreRoundAndCoverTheRange) {
  EXPECT_THAT(nice_ticks(0, 312, 6), ElementsAre(0, 50, 100, 150, 200, 250, 300, 350));
  EXPECT_THAT(nice_ticks(0, 1, 6), ElementsAre(0, 0.2, 0.4, 3 * 0.2, 0.8, 1));
  EXPECT_THAT(nice_ticks(-3, 3, 4), ElementsAre(-4, -2, 0, 2, 4));
  EXPECT_THAT(nice_ticks(0, 5e-324, 2).size(), testing::Ge(2u));
}

TEST(LogTicks, GetFewerPerDecadeOverMoreDecades) {
  EXPECT_THAT(log_ticks(0.25, 3.0), ElementsAre(0.3, 0.5, 1, 2, 3));
  EXPECT_THAT(log_ticks(1, 100), ElementsAre(1, 2, 5, 10, 20, 50, 100));
  EXPECT_THAT(log_ticks(1, 1e5), ElementsAre(1, 10, 100, 1e3, 1e4, 1e5));
}

LineChart small_chart() {
  return {"Loss", "Falls.", "step", "loss", true, {{"a<b", {1, 2, 3}, {3, 1, 0.5}}}};
}

TEST(LineChart, IsWellFormedEscapedAndDescribed) {
  const std::string svg = line_chart(small_chart());
  EXPECT_EQ(markup_problem(svg), "");
  EXPECT_THAT(svg, HasSubstr("a&lt;b"));
  EXPECT_THAT(svg, HasSubstr("<title>Loss</title><desc>Falls.</desc>"));
  EXPECT_THAT(svg, HasSubstr("role=\"img\""));
  EXPECT_EQ(markup_problem(svg_file(svg)), "");
  EXPECT_THAT(svg_file(svg), HasSubstr("<style>"));
}

TEST(LineChart, TellsEqualSeriesApartByDashAndWidth) {
  LineChart chart = small_chart();
  chart.series.push_back({"same", {1, 2, 3}, {3, 1, 0.5}});
  const std::string svg = line_chart(chart);
  EXPECT_THAT(svg, HasSubstr("line l0\" stroke-width=\"3.12\"/>"));
  EXPECT_THAT(svg, HasSubstr("line l1\" stroke-width=\"2.00\" stroke-dasharray="));
  EXPECT_THAT(svg, HasSubstr(">same</text>"));
}

TEST(LineChart, DrawsGapsConstantsAndNothingAtAll) {
  LineChart chart = small_chart();
  chart.series[0].y = {3, NAN, 0.5};
  EXPECT_THAT(line_chart(chart), Not(HasSubstr("nan")));
  chart.series[0].y = {0, 0, 0};
  chart.series[0].x = {1, 1, 1};
  EXPECT_EQ(markup_problem(line_chart(chart)), "");
  EXPECT_THAT(line_chart(chart), Not(HasSubstr("nan")));
  EXPECT_THAT(line_chart(chart), Not(HasSubstr("inf")));
  chart.series.clear();
  EXPECT_THAT(line_chart(chart), HasSubstr("no data"));
}

BarChart small_bars() {
  return {"Time",       "Bars.", "time", {"computation", "communication"}, {{"ring", {1, 3}}},
          format_bytes, {},      {}};
}

TEST(BarChart, StacksItsPartsAndNamesThem) {
  const std::string svg = bar_chart(small_bars());
  EXPECT_EQ(markup_problem(svg), "");
  EXPECT_THAT(svg, HasSubstr("<title>ring, communication: 3 B</title>"));
  EXPECT_THAT(svg, HasSubstr(">4 B</text>"));
  EXPECT_THAT(svg, HasSubstr(">computation</text>"));
}

TEST(BarChart, ShowsAReferenceEvenBeyondAllBars) {
  BarChart chart = small_bars();
  chart.reference = 8.0;
  chart.reference_label = "the <tensor>";
  const std::string svg = bar_chart(chart);
  EXPECT_THAT(svg, HasSubstr("the &lt;tensor&gt;"));
  EXPECT_THAT(svg, HasSubstr(">8 B</text>"));
}

TEST(BarChart, HasNoDataWithoutBars) {
  BarChart chart = small_bars();
  chart.bars.clear();
  EXPECT_THAT(bar_chart(chart), HasSubstr("no data"));
}

}  // namespace
}  // namespace sumcast::report
