// What one worker of `sumcast train` does: epochs of rounds, whatever is trained.
#pragma once

#include <deque>
#include <functional>
#include <vector>

#include "cli/hot_watch.h"
#include "cli/train_checkpoint.h"
#include "cli/train_task.h"

namespace sumcast::cli {

class TrainWorker {
 public:
  /// All outlive the worker.
  ///
  /// @param hot  what is hot now.
  TrainWorker(sparse::Worker& rows, const TrainSubject& subject, const TrainOptions& options,
              const sparse::Options& job, const HotChoice& hot, uint32_t rank);
  ~TrainWorker();
  TrainWorker(const TrainWorker&) = delete;
  TrainWorker& operator=(const TrainWorker&) = delete;

  /// Steps of an epoch.
  uint64_t steps() const { return task_->steps(); }
  /// @param on_step  called after each step with its number in the epoch. May be empty.
  /// @param from     the epoch, and where in it to begin.
  Result<TrainEpoch> run_epoch(const TrainPosition& from,
                               const std::function<void(uint64_t)>& on_step);
  /// Writes the epoch's checkpoint, if any are wanted.
  Result<void> end_epoch(uint32_t epoch) { return saver_.after_epoch(epoch); }

  /// The dense parameters and, behind them, their optimiser's state: equal on all workers, and with
  /// the rows all that a model is.
  std::span<float> dense() { return dense_; }

 private:
  Result<TrainLoss> train(const TrainPosition& from, TrainEpoch& result,
                          const std::function<void(uint64_t)>& on_step);
  /// Asks for the rows of a step, and of those behind it that may be asked for ahead.
  Result<void> ask_from(uint64_t step);
  /// A step's gradients, and on to the next one.
  Result<void> move(uint64_t step, TrainEpoch& result);
  double share_since(const sparse::WorkerCounters& before) const;

  sparse::Worker& rows_;
  std::unique_ptr<TrainTask> task_;
  HotWatch watch_;
  table::Optimizer dense_rule_;
  uint64_t ahead_;                                 // Batches asked for ahead.
  size_t width_;                                   // Of a row.
  size_t parameters_;                              // Dense ones.
  std::vector<float> dense_;                       // f32[parameters] and their state.
  std::vector<float> dense_gradients_;             // f32[parameters]
  std::vector<float> gradients_;                   // f32[keys][width]
  std::deque<const std::vector<uint64_t>*> keys_;  // Of the current step and those asked for.
  TrainSaver saver_;
};

}  // namespace sumcast::cli
