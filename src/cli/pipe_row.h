// A measured cell of `sumcast bench pipeline` beside its prediction, and its line of a results
// file.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "cli/pipe_cell.h"

namespace sumcast::cli {

struct PipeRow {
  std::string model;
  plan::Mode mode;
  double ratio = 0;
  uint32_t workers = 0;
  Duration delay{0};  ///< Of every datagram, each way.
  uint64_t rate_bps = 0;
  double compute_s = 0;  ///< Of a synchronous step, all workers computing.
  plan::Prediction predicted;
  std::vector<size_t> order;  ///< Of buckets, in the mode `priority`.
  double step_s = 0;          ///< 0: not measured yet.
  double idle_share = 0;      ///< Of the step, what the compute thread waited.
  double link_bytes = 0;      ///< Per step, on the busiest link, in its busier direction.
  double link_idle_share = 0;
  double drift = 0;  ///< How much slower (0.1: a tenth) computing alone was around it than before.
  std::vector<PipeSpan> spans;  ///< Of worker 0.
  bool decides = true;          ///< All modes of its model, workers, delay and ratio were measured.
};

/// "server" and "async-server" where the server is the algorithm, else the schedule's name.
std::string_view mode_name(const plan::Mode& mode);

/// Whether the rows are of one cell, measured or not.
bool same_cell(const PipeRow& a, const PipeRow& b);

/// One object on one line, without a newline. A row that is a prediction alone has no measurement.
/// Spans are for files that are taken up again, not for people's tables.
std::string to_json_line(const PipeRow& row, bool with_spans = false);
/// kInvalidArgument for anything but what to_json_line() writes.
Result<PipeRow> row_from_json(std::string_view line);

}  // namespace sumcast::cli
