// From what a user says of a table to what the members of a sparse job need.
#pragma once

#include "sparse/options.h"
#include "sumcast/table.hpp"

namespace sumcast::embedding {

/// kInvalidArgument: the first thing that is wrong, by its name in TableOptions.
Result<sparse::Options> rows_options(const TableOptions& options, uint32_t workers);

/// Makes the directory if need be, and takes up its checkpoint where that is wanted and there is
/// one.
Result<void> open_checkpoint(const TableOptions& options, sparse::Options& rows);

}  // namespace sumcast::embedding
