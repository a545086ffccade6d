#include "report/demo_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "report/markup_checker.h"

namespace sumcast::report {
namespace {

using testing::HasSubstr;
using testing::Not;

DemoMethod method_of(const std::string& name, Duration step, uint64_t hash) {
  return {name, step, step / 2, 2'700'000, 0.8822, {2.5f, 1.0f, 0.5f}, hash, ""};
}

DemoReportData sample() {
  DemoReportData data;
  data.command_line = "sumcast demo --name '<x>'";
  data.gradient_bytes = 2'678'824;
  data.link_bits_per_second = 300e6;
  data.methods = {method_of("in-network", 100ms, 1), method_of("ring", 210ms, 2),
                  method_of("direct", 150ms, 1)};
  data.machine = {{"CPU", "Xeon & Co"}};
  return data;
}

TEST(DemoReport, IsWellFormedAndNeedsNothingFromElsewhere) {
  const std::string html = demo_report_html(sample());
  EXPECT_EQ(markup_problem(html), "");
  EXPECT_THAT(html, HasSubstr("Xeon &amp; Co"));
  EXPECT_THAT(html, HasSubstr("&#39;&lt;x&gt;&#39;"));
  EXPECT_THAT(html, Not(HasSubstr("<script")));
  EXPECT_THAT(html, Not(HasSubstr("src=")));
  EXPECT_THAT(html, Not(HasSubstr("url(")));
  EXPECT_THAT(html, HasSubstr("prefers-color-scheme:dark"));
  EXPECT_THAT(html, HasSubstr("@media print"));
}

TEST(DemoReport, SaysWhatTheFiguresSay) {
  const std::string html = demo_report_html(sample());
  EXPECT_THAT(html, HasSubstr("in-network was faster than ring: 100 ms against 210 ms per step, "
                              "2.1x the speed."));
  EXPECT_THAT(html, HasSubstr("in-network and direct ended with the same weights, bit for bit"));
  EXPECT_THAT(html, HasSubstr("All reach the same test accuracy, 88.22 %."));
  EXPECT_THAT(html, HasSubstr("2 of 3"));
}

TEST(DemoReport, AdmitsWhenTheSubjectIsSlower) {
  DemoReportData data = sample();
  data.methods[0].step = 420ms;
  data.methods[2].accuracy = 0.9;
  const std::string html = demo_report_html(data);
  EXPECT_THAT(html, HasSubstr("in-network was slower than ring: 420 ms against 210 ms per step, "
                              "0.50x the speed."));
  EXPECT_THAT(html, HasSubstr("between 88.22 % (in-network) and 90.00 % (direct)"));
}

TEST(DemoReport, DoesNotClaimEqualityThatIsNotThere) {
  DemoReportData data = sample();
  data.methods[2].weights_hash = 3;
  const std::string html = demo_report_html(data);
  EXPECT_THAT(html, Not(HasSubstr("ended with the same weights")));
  EXPECT_THAT(html, HasSubstr("1 of 3"));
}

TEST(DemoReport, ManagesWithoutSubjectBaselineOrMethods) {
  DemoReportData data = sample();
  data.subject = "switch";
  data.baseline = "gloo";
  EXPECT_EQ(markup_problem(demo_report_html(data)), "");
  EXPECT_THAT(demo_report_html(data), Not(HasSubstr("vs gloo")));
  data.methods.clear();
  EXPECT_EQ(markup_problem(demo_report_html(data)), "");
  EXPECT_EQ(markup_problem(demo_report_html({})), "");
}

TEST(DemoReport, ChartsStandAlone) {
  const auto charts = demo_report_charts(sample());
  ASSERT_EQ(charts.size(), 3u);
  for (const auto& [name, svg] : charts) {
    EXPECT_EQ(markup_problem(svg), "") << name;
    EXPECT_THAT(svg, HasSubstr("xmlns=")) << name;
  }
}

}  // namespace
}  // namespace sumcast::report
