// The page that `sumcast demo` leaves behind: one model, trained once per method.
//
// It takes finished figures and says only what they say: which method was fastest, which sums were
// the same bits, are worked out from the data, not promised by the text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/time.h"

namespace sumcast::report {

/// One training run.
struct DemoMethod {
  std::string name;               ///< "in-network", "direct", "ring", ...
  Duration step{};                ///< Median time of a step.
  Duration communication{};       ///< Median part of it inside the all-reduce; at most `step`.
  uint64_t bytes_per_worker = 0;  ///< Sent by one worker in one step, headers included.
  double accuracy = 0.0;          ///< On the test images, 0 to 1.
  std::vector<float> losses;      ///< One per step, of rank 0's batches.
  uint64_t weights_hash = 0;      ///< Of the final weights, equal on all its workers.
  std::string note;               ///< A few words for the table; may be empty.
};

struct DemoReportData {
  std::string started;       ///< When, in words: "2025-11-29 18:20".
  std::string command_line;  ///< What to type to get this page again.
  std::string version;       ///< Of sumcast.
  int workers = 4;
  double link_bits_per_second = 0.0;  ///< Of each worker, 0 if unshaped.
  int epochs = 3;
  int batch = 128;          ///< Images per worker and step.
  uint64_t parameters = 0;  ///< Of the model.
  uint64_t gradient_bytes = 0;
  uint64_t training_images = 0;
  std::vector<DemoMethod> methods;     ///< In the order they ran.
  std::string subject = "in-network";  ///< Method that the page is about ...
  std::string baseline = "ring";       ///< ... and the one that it is compared with.
  std::vector<std::pair<std::string, std::string>> machine;  ///< CPU, kernel, topology, ...
  std::vector<std::string> caveats;  ///< What a reader must know before quoting a figure.
};

/// A complete HTML document. Works with any number of methods, none included, and without subject
/// or baseline among them; then what would compare them is left out.
std::string demo_report_html(const DemoReportData& data);

/// The three charts of the page as files of their own: name and SVG text.
std::vector<std::pair<std::string, std::string>> demo_report_charts(const DemoReportData& data);

}  // namespace sumcast::report
