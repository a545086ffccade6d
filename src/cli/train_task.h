// What `sumcast train` can train: a subject, shared by the workers of a process, and each worker's
// task in it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cli/train_options.h"
#include "hotset/corpus.h"
#include "sparse/worker.h"
#include "trainer/sparse_model.h"

namespace sumcast::cli {

/// After an epoch; the same on all workers, but for what says otherwise.
struct TrainEpoch {
  uint32_t epoch = 0;  ///< From 1.
  double train_loss = 0, test_loss = 0;
  double top_1 = 0;
  double auc = 0;      ///< Of models with one score.
  double seconds = 0;  ///< Of training, evaluation not counted; this worker's.
  uint64_t steps = 0;
  double hot_share = 0;            ///< Of this worker's gradients in this epoch.
  std::vector<double> hot_shares;  ///< The same for equal parts of it, one after the other.
  uint64_t swaps = 0;              ///< New hot sets in this epoch.
  uint64_t swapped_keys = 0;       ///< Keys that became hot by them.
};

/// A loss summed over examples: samples, or pairs of words.
struct TrainLoss {
  double sum = 0;
  uint64_t examples = 0;
};

/// One worker's; one thread at a time.
class TrainTask {
 public:
  virtual ~TrainTask() = default;

  /// Steps of an epoch; the same on all workers.
  virtual uint64_t steps() const = 0;
  virtual void begin_epoch(uint32_t epoch) = 0;
  /// Prepares this worker's batch of a step and returns its keys, distinct. It and the ones before
  /// are kept, staleness + 2 together.
  virtual const std::vector<uint64_t>& make_batch(uint64_t step) = 0;
  /// Of one of those: writes gradients as trainer::SparseModel::learn does.
  virtual TrainLoss learn(uint64_t step, const trainer::ModelView& model,
                          const trainer::GradientView& gradients) = 0;
  /// What the model is worth on data that it was not trained on: each worker reads a share, all get
  /// the result. Called by all workers.
  virtual Result<void> evaluate(sparse::Worker& rows, const float* dense, TrainEpoch& result) = 0;
};

/// Any number of threads may use one.
class TrainSubject {
 public:
  virtual ~TrainSubject() = default;

  virtual uint32_t width() const = 0;
  virtual float init_scale() const = 0;
  virtual size_t dense() const { return 0; }
  virtual void draw_dense(uint64_t /*seed*/, float* /*parameters*/) const {}
  /// Keys as a part of a batch touches them, a row for each of its `batch` parts: a share of the
  /// training data (`--sample`), from its beginning where that is read in order.
  virtual hotset::Corpus sample() const = 0;
  virtual std::unique_ptr<TrainTask> make_task(uint32_t rank) const = 0;
  /// "41 samples to train, 5 to test": for people.
  virtual std::string describe() const = 0;
  /// After the last epoch, called by all workers, with no key hot: what is made of the model.
  virtual Result<void> finish(sparse::Worker& rows, bool speaks) const = 0;
};

/// Reads the data. kInvalidArgument: what the options name cannot be trained, or a malformed line.
///
/// @param options  outlive the subject.
Result<std::unique_ptr<TrainSubject>> make_train_subject(const TrainOptions& options);
Result<std::unique_ptr<TrainSubject>> make_sample_subject(const TrainOptions& options);
Result<std::unique_ptr<TrainSubject>> make_word_subject(const TrainOptions& options);

}  // namespace sumcast::cli
