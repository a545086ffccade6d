// What one worker of `sumcast train` does: epochs of rounds, and its share of the evaluation.
#pragma once

#include <functional>
#include <vector>

#include "cli/train_data.h"
#include "sparse/worker.h"
#include "trainer/sparse_model.h"

namespace sumcast::cli {

/// After an epoch; the same on all workers.
struct TrainEpoch {
  uint32_t epoch = 0;  ///< From 1.
  double train_loss = 0, test_loss = 0;
  double top_1 = 0;
  double auc = 0;      ///< Of models with one score.
  double seconds = 0;  ///< Of training, evaluation not counted.
  uint64_t steps = 0;
  double hot_share = 0;  ///< Of the gradients pushed so far by this worker.
};

class TrainWorker {
 public:
  /// All outlive the worker.
  TrainWorker(sparse::Worker& rows, const trainer::SparseModel& model, const TrainData& data,
              const TrainOptions& options, uint32_t rank)
      : rows_(rows), model_(model), data_(data), options_(options), rank_(rank) {}

  /// Steps of an epoch.
  uint64_t steps() const;
  /// @param on_step  called after each step with its number in the epoch. May be empty.
  Result<TrainEpoch> run_epoch(uint32_t epoch, const std::function<void(uint64_t)>& on_step);

 private:
  void shuffle(uint32_t epoch);
  /// This worker's samples of a step.
  void fill_batch(uint64_t step, trainer::SparseBatch& batch) const;
  Result<double> train(const std::function<void(uint64_t)>& on_step);
  Result<void> evaluate(TrainEpoch& result);

  sparse::Worker& rows_;
  const trainer::SparseModel& model_;
  const TrainData& data_;
  const TrainOptions& options_;
  uint32_t rank_;
  std::vector<uint32_t> order_;  // Of the training samples in this epoch.
};

}  // namespace sumcast::cli
