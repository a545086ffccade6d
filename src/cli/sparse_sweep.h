// `sumcast bench sparse --sweep`: where hot keys on the aggregator pay most, and where they stop.
//
// Cells of workers x servers x batch x width, each a run of `servers` and `dual`. With --out a
// cell's line is added to the file when the cell has been measured, and cells that are in the file
// are not run again: a sweep that was stopped goes on.
#pragma once

#include <string>
#include <vector>

#include "cli/sparse_plan.h"

namespace sumcast::cli {

struct SweepCell {
  uint32_t workers = 0, servers = 0, batch = 0, width = 0;
  bool operator==(const SweepCell&) const = default;
};

struct SweepResult {
  SweepCell cell;
  double servers_us = 0, dual_us = 0;  ///< Of a round.
  double hot_share = 0;
  double ratio() const { return dual_us > 0 ? servers_us / dual_us : 0; }
};

std::vector<SweepCell> sweep_cells();
/// A line of the file. Other settings (keys, link) go along, so that a file of others is noticed.
std::string to_json_line(const SweepResult& result, const SparseFlags& flags);
/// kInvalidArgument: a line that is none, or one of other settings.
Result<SweepResult> sweep_result_from_line(std::string_view line, const SparseFlags& flags);
/// Cells by ratio, the best first, and in words the best one and where it does not pay.
std::string sweep_table(std::vector<SweepResult> results, const SparseFlags& flags);

Result<void> run_sparse_sweep(const SparseFlags& flags);

}  // namespace sumcast::cli
