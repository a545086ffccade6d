// In which order an epoch takes its items (samples, texts), who takes which, and reading rows
// without moving them: what all subjects of `sumcast train` share.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cli/train_options.h"
#include "sparse/worker.h"

namespace sumcast::cli {

/// Steps of an epoch over `items`.
uint64_t steps_of(size_t items, const TrainOptions& options);
/// As they were read, or another order each epoch; the same on all workers.
std::vector<uint32_t> epoch_order(size_t items, uint32_t epoch, const TrainOptions& options);
/// A worker's part of a step's items; the last step may have none for it.
std::span<const uint32_t> share_of_step(std::span<const uint32_t> order, uint64_t step,
                                        uint32_t rank, const TrainOptions& options);
/// Which items hot keys are chosen from: the first ones where the order is the file's, for later
/// ones are not known yet; else any.
std::vector<size_t> sampled(size_t items, const TrainOptions& options);

/// sparse::Worker::peek into memory of its own. All workers call it.
///
/// @param memory  f32[keys][width]. @param views  its rows.
Result<void> peek_rows(sparse::Worker& rows, std::span<const uint64_t> keys, size_t width,
                       std::vector<float>& memory, std::vector<const float*>& views);

}  // namespace sumcast::cli
