// The charts of the demo's page, each with the table of its numbers.
#pragma once

#include "report/demo_report.h"
#include "report/html.h"
#include "report/svg.h"

namespace sumcast::report {

/// A loss curve is the mean over this many steps around each point: single batches are noisy, and
/// what is to be seen is whether curves part.
inline constexpr size_t kLossSmoothing = 9;

LineChart loss_chart(const DemoReportData& data);
/// A dozen steps from first to last.
HtmlTable loss_numbers(const DemoReportData& data);

BarChart time_chart(const DemoReportData& data);
HtmlTable time_numbers(const DemoReportData& data);

BarChart bytes_chart(const DemoReportData& data);
HtmlTable bytes_numbers(const DemoReportData& data);

}  // namespace sumcast::report
