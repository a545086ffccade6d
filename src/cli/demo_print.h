// The demo's outcome for people, for machines and for the report page. Pure: text out of figures.
#pragma once

#include <span>
#include <string>

#include "cli/demo_options.h"
#include "cli/demo_result.h"
#include "report/demo_report.h"

namespace sumcast::cli {

/// Where and on what it ran.
struct DemoSetting {
  std::string loopback_notice;  ///< Why there are no links; empty if there are.
  uint64_t training_images = 0;
  std::string started;  ///< Wall clock in words.
  std::string cpu;      ///< Model name.
  int cores = 1;
  std::string kernel;
  std::string version;  ///< Of sumcast.
};

/// The table and what it says about weights; lines end with a newline.
std::string demo_table(std::span<const MethodOutcome> all);

/// One JSON object on one line, newline included. `all`: the outcomes so far, `outcome` among them.
std::string demo_json(const MethodOutcome& outcome, std::span<const MethodOutcome> all);

report::DemoReportData demo_report_data(const DemoOptions& options, const DemoSetting& setting,
                                        std::span<const MethodOutcome> all);

}  // namespace sumcast::cli
