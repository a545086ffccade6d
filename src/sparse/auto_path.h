// Are keys better hot or cold here? Both are tried, and all workers agree on what came out.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "sparse/worker.h"

namespace sumcast::sparse {

/// Trains some rounds; pulls first if no keys are current, as after set_hot().
using RunRounds = std::function<Result<void>(uint32_t rounds)>;

/// Called by all workers alike. Leaves the worker with `hot` set, or with no hot keys, whichever
/// took less time per round at the slowest worker; rounds that were run have counted.
/// @return true if hot keys are set.
Result<bool> choose_path(Worker& worker, std::span<const uint64_t> hot, const RunRounds& run);

}  // namespace sumcast::sparse
