// From what was counted to the rows that are printed. Pure.
#pragma once

#include "cli/bench_contender.h"
#include "report/bench_rows.h"
#include "report/nccl_table.h"

namespace sumcast::cli {

/// One row of nccl-tests' table. Times are medians; a half that was not measured stays blank, and
/// for the in-place half, which the layout always has, is taken from the other.
report::NcclRow nccl_row_of(const BenchCase& bench, uint32_t workers, const Tally& tally);

/// One row of --json. Its time is that of the out-of-place half where there is one; `wrong` counts
/// both halves.
report::BenchRow bench_row_of(const ContenderSpec& contender, const BenchPlan& plan,
                              const BenchCase& bench, const DatagramShape& shape,
                              const Tally& tally);

/// Comment line with the spread of the iterations, for `-I 1`; without the newline.
std::string spread_line(const Tally& tally);

}  // namespace sumcast::cli
