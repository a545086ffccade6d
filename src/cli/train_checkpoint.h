// How far a training is, beside its rows: what `sumcast train --resume` goes on from.
//
//   state    one line of JSON (epoch, step, workers, batch, loss so far), then f32[dense]: the
//   dense
//            parameters with their optimiser's state
//
// Batches are drawn from seed, epoch, step and rank, so that a resumed training takes the same ones
// and ends with the same bits. With another number of workers or another batch it goes on at the
// step that so many samples of the epoch come to.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cli/train_task.h"

namespace sumcast::cli {

/// Where a training stands: `step` steps of `epoch` are done.
struct TrainPosition {
  uint32_t epoch = 1;
  uint64_t step = 0;
  TrainLoss loss{};  ///< Of those steps; worker 0 has that of all of them, the others none.
};

/// @param loss  of all workers.
std::string encode_position(const TrainPosition& position, const TrainOptions& options,
                            std::span<const float> dense);
/// @param dense  as many as were encoded; written only on success. kInvalidArgument: another
///               model's, or none of ours.
Result<TrainPosition> decode_position(const std::string& state, const TrainOptions& options,
                                      std::span<float> dense);

/// Prepares `job` for `--checkpoint` and `--resume`: makes the directory, reads the manifest. A
/// training with --resume and no checkpoint there begins anew.
Result<void> open_checkpoints(const TrainOptions& options, sparse::Options& job);
/// Where to begin; the first step if there is no checkpoint to take up.
Result<TrainPosition> first_position(const TrainOptions& options, const sparse::Options& job,
                                     std::span<float> dense, uint32_t rank);

/// When checkpoints are written; one for each worker.
class TrainSaver {
 public:
  /// All outlive it.
  TrainSaver(sparse::Worker& rows, const TrainOptions& options, std::span<const float> dense,
             uint32_t rank)
      : rows_(rows), options_(options), dense_(dense), rank_(rank) {}

  /// After a step inside an epoch. Called by all workers. A disk that refuses is a warning: the
  /// last checkpoint stands, and training is worth more than the next.
  Result<void> after_step(const TrainPosition& position);
  /// After an epoch's evaluation; after the last one all rows are written.
  Result<void> after_epoch(uint32_t epoch);

 private:
  Result<void> save(TrainPosition position, bool full);

  sparse::Worker& rows_;
  const TrainOptions& options_;
  std::span<const float> dense_;
  uint32_t rank_;
  uint64_t steps_ = 0;  // Since the last checkpoint.
  uint32_t saved_ = 0;
};

}  // namespace sumcast::cli
