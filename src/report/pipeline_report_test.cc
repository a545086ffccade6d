#include "report/pipeline_report.h"

#include <gtest/gtest.h>

#include <cmath>

#include "report/markup_checker.h"

namespace sumcast::report {
namespace {

PipelineReportData data() {
  PipelineReportData data;
  PipelineSection& section = data.sections.emplace_back();
  section.heading = "mlp <4 workers>";
  section.entries.push_back({"sync, ring, native",
                             0.3,
                             0.28,
                             0.25,
                             0.31,
                             0.5,
                             {{false, 100.0, 100.1}, {true, 100.1, 100.3}}});
  section.entries.push_back({"pipe K=2, ring, native", 0.2, 0.2, 0.19, 0.21, 0.1, {}});
  data.setting = "a machine";
  return data;
}

size_t count(const std::string& text, const std::string& what) {
  size_t found = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++found;
  return found;
}

TEST(PipelineReport, EverySpanIsDrawnOnItsLane) {
  const std::string chart = timeline_chart(data().sections[0]);
  EXPECT_EQ(count(chart, "<rect"), 2u + 2u);  // Two of the legend.
  EXPECT_EQ(count(chart, "computing: 100 ms"), 1u);
  EXPECT_EQ(count(chart, "sum: 200 ms"), 1u);
}

TEST(PipelineReport, WithoutSpansItSaysSo) {
  PipelineSection none = data().sections[0];
  none.entries.erase(none.entries.begin());
  EXPECT_NE(timeline_chart(none).find("no data"), std::string::npos);
  EXPECT_NE(prediction_chart(PipelineSection{}).find("no data"), std::string::npos);
}

TEST(PipelineReport, TimesToAnAccuracyAreReadBetweenEpochs) {
  const AccuracyCurve curve{"pipe", {10, 20, 30}, {0.5, 0.7, 0.6}};
  EXPECT_NEAR(*seconds_to(curve, 0.6), 15, 1e-9);
  EXPECT_NEAR(*seconds_to(curve, 0.4), 10, 1e-9) << "no earlier than the first epoch's end";
  EXPECT_FALSE(seconds_to(curve, 0.8));
  PipelineReportData with = data();
  EXPECT_EQ(pipeline_report_html(with).find("time to"), std::string::npos);
  with.sections[0].curves = {curve, {"server", {40, 80}, {0.5, NAN}}};
  with.sections[0].target_accuracy = 0.69;
  with.sections[0].training = "MLP on images";
  const std::string page = pipeline_report_html(with);
  EXPECT_NE(page.find("time to 69.0 %"), std::string::npos);
  EXPECT_NE(page.find("not reached"), std::string::npos);
  EXPECT_NE(page.find("MLP on images"), std::string::npos);
  EXPECT_EQ(markup_problem(page), "");
}

TEST(PipelineReport, ThePageIsWellFormedEscapedAndCarriesItsNumbers) {
  const std::string page = pipeline_report_html(data());
  EXPECT_EQ(page.find("<4 workers>"), std::string::npos);
  EXPECT_NE(page.find("&lt;4 workers&gt;"), std::string::npos);
  EXPECT_NE(page.find("-6.7 %"), std::string::npos);
  EXPECT_EQ(markup_problem(page), "");
  EXPECT_EQ(page.find("<script"), std::string::npos);
}

}  // namespace
}  // namespace sumcast::report
