// One run of `sumcast bench sparse`: all paths by turns, and a peer among them.
#pragma once

#include <string_view>
#include <vector>

#include "cli/sparse_plan.h"

namespace sumcast::cli {

/// @param label  in front of the progress on a terminal.
/// @return a row for each path in the flags' order, then the peer's. SparseRow::wrong counts blocks
///         that ended with other bits than the first path's.
Result<std::vector<SparseRow>> measure_sparse(const SparseFlags& flags, std::string_view label);

/// Prints a table, or with --json a row for each path.
Result<void> run_sparse_bench(const SparseFlags& flags);

}  // namespace sumcast::cli
