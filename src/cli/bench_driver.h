// Measures all cases with all contenders, by turns.
//
// For each size: every contender prepares and warms up, then in every round each has one timed
// block in each half, one contender after the other. Links are drained before each block. Rows are
// handed to a callback as soon as a size is done.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "cli/bench_contender.h"

namespace sumcast::cli {

/// One contender's figures for one case.
using RowSink =
    std::function<void(const Contender& contender, const BenchCase& bench, const Tally& tally)>;
/// Called before each round, for a progress bar.
using RoundObserver = std::function<void(const BenchCase& bench, uint32_t round, uint32_t rounds)>;

/// Starts a contender for each of the plan's, in order. No key file is left afterwards.
Result<std::vector<std::unique_ptr<Contender>>> start_contenders(BenchSite& site);

/// Fails with the first error of a contender; kAborted after Ctrl-C.
Result<void> measure_all(BenchSite& site, std::vector<std::unique_ptr<Contender>>& contenders,
                         const RowSink& on_row, const RoundObserver& on_round);

}  // namespace sumcast::cli
