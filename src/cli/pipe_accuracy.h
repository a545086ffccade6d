// Accuracy over time in the report of `sumcast bench pipeline`: what `sumcast bench convergence`
// has trained as a mode trains, its steps taken in the time that a step of the mode took. Only runs
// of a cell's own configuration count: its model, its number of workers, its batch. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/convergence_cell.h"
#include "cli/pipe_row.h"
#include "report/pipeline_report.h"

namespace sumcast::cli {

/// The variant of bench convergence that trains as this mode does: with its width, its remedies and
/// what it sends. "" if there is none. Schedules of fresh gradients train alike.
std::string_view variant_of(const plan::Mode& mode);

/// What a run's grid says of it; nothing if it is not such a text.
struct TrainedGrid {
  uint32_t workers = 0, epochs = 0, images = 0, batch = 0;
  double steps_per_epoch() const;
};
std::optional<TrainedGrid> grid_from_text(const std::string& text);

/// Adds to each section of the report the curves of its modes; sections of models that are shapes
/// alone get none.
/// @param rows  from which pipe_report() made the data.
/// Errors: kInvalidArgument if no run is of any section's configuration, saying how to make some.
Result<void> add_accuracy(const std::vector<PipeRow>& rows, const std::vector<ConvergenceRun>& runs,
                          report::PipelineReportData& data);

}  // namespace sumcast::cli
