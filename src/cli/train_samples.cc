// Models of samples (lr, fm, deepfm, softmax) as what `sumcast train` trains.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/prng.h"
#include "cli/train_data.h"
#include "cli/train_order.h"
#include "cli/train_task.h"
#include "trainer/naive_bayes.h"

namespace sumcast::cli {
namespace {

constexpr size_t kTestBatch = 512;  // Samples of a worker in one reading.

class SampleTask final : public TrainTask {
 public:
  SampleTask(const TrainData& data, const trainer::SparseModel& model, const TrainOptions& options,
             uint32_t rank)
      : data_(data),
        model_(model),
        options_(options),
        rank_(rank),
        batches_(options.staleness + 2) {}

  uint64_t steps() const override { return steps_of(data_.train.size(), options_); }
  void begin_epoch(uint32_t epoch) override {
    order_ = epoch_order(data_.train.size(), epoch, options_);
  }

  const std::vector<uint64_t>& make_batch(uint64_t step) override {
    trainer::SparseBatch& batch = batches_[step % batches_.size()];
    batch.clear();
    for (const uint32_t place : share_of_step(order_, step, rank_, options_)) {
      batch.add(data_.train[place]);
    }
    return batch.keys;
  }

  TrainLoss learn(uint64_t step, const trainer::ModelView& model,
                  const trainer::GradientView& gradients) override {
    const trainer::SparseBatch& batch = batches_[step % batches_.size()];
    const uint64_t together = uint64_t{options_.workers} * options_.batch;
    const uint64_t in_step = std::min<uint64_t>(together, order_.size() - step * together);
    const double loss = model_.learn(batch, model, 1.0f / static_cast<float>(in_step), gradients);
    return {loss, batch.size()};
  }

  Result<void> evaluate(sparse::Worker& rows, const float* dense, TrainEpoch& result) override;

 private:
  const TrainData& data_;
  const trainer::SparseModel& model_;
  const TrainOptions& options_;
  uint32_t rank_;
  std::vector<uint32_t> order_;                // Of the training samples in this epoch.
  std::vector<trainer::SparseBatch> batches_;  // By step.
};

/// Every worker predicts its share of the test samples; all get all predictions.
Result<void> SampleTask::evaluate(sparse::Worker& rows, const float* dense, TrainEpoch& result) {
  const size_t share = (data_.test.size() + options_.workers - 1) / options_.workers;
  const size_t scores = model_.scores();
  std::vector<float> all(share * options_.workers * scores);
  float* const mine = all.data() + rank_ * share * scores;
  const size_t first = std::min(rank_ * share, data_.test.size());
  const size_t end = std::min(first + share, data_.test.size());
  trainer::SparseBatch batch;
  std::vector<float> weights;
  std::vector<const float*> views;
  // As many readings on every worker, empty ones too.
  for (size_t at = 0; at < share; at += kTestBatch) {
    batch.clear();
    const size_t begin = std::min(first + at, end), stop = std::min(begin + kTestBatch, end);
    for (size_t i = begin; i < stop; ++i) batch.add(data_.test[i]);
    if (auto read = peek_rows(rows, batch.keys, model_.width(), weights, views); !read) return read;
    model_.predict(batch, {views, dense}, mine + at * scores);
  }
  auto gathered = rows.all_gather(mine, all.data(), share * scores, ElementType::kF32);
  if (!gathered) return gathered;
  // Shares are consecutive, so predictions lie in the order of the samples; only the end is empty.
  std::vector<float> labels;
  for (const dataset::Sample& sample : data_.test) labels.push_back(sample.label);
  all.resize(labels.size() * scores);
  result.test_loss = trainer::log_loss(labels, all, model_.scores());
  result.top_1 = trainer::top_1(labels, all, model_.scores());
  if (scores == 1) result.auc = trainer::area_under_curve(labels, all);
  return {};
}

class SampleSubject final : public TrainSubject {
 public:
  SampleSubject(const TrainOptions& options, TrainData data,
                std::unique_ptr<trainer::SparseModel> model)
      : options_(options), data_(std::move(data)), model_(std::move(model)) {}

  uint32_t width() const override { return model_->width(); }
  float init_scale() const override { return model_->init_scale(); }
  size_t dense() const override { return model_->dense(); }
  void draw_dense(uint64_t seed, float* parameters) const override {
    model_->draw_dense(seed, parameters);
  }
  std::unique_ptr<TrainTask> make_task(uint32_t rank) const override {
    return std::make_unique<SampleTask>(data_, *model_, options_, rank);
  }

  hotset::Corpus sample() const override {
    hotset::Corpus corpus;
    std::vector<uint64_t> keys;
    for (const size_t place : sampled(data_.train.size(), options_)) {
      keys.assign(1, trainer::kBiasKey);
      for (const dataset::Feature& feature : data_.train[place].features) {
        keys.push_back(feature.key);
      }
      corpus.add_row(keys);
    }
    return corpus;
  }

  std::string describe() const override {
    return fmt::format(
        "{} samples to train, {} to test{}", data_.train.size(), data_.test.size(),
        data_.labels.empty() ? std::string() : fmt::format(", {} labels", data_.labels.size()));
  }

  /// The baseline that a classifier of counts must beat.
  Result<void> finish(sparse::Worker&, bool speaks) const override {
    if (!speaks || options_.model != "softmax") return {};
    const auto bayes = trainer::measure_naive_bayes(data_.train, data_.test, data_.classes);
    if (options_.json) {
      const nlohmann::ordered_json json = {
          {"baseline", "naive-bayes"}, {"top_1", bayes.top_1}, {"smoothing", bayes.smoothing}};
      fmt::print("{}\n", json.dump());
    } else {
      fmt::print("multinomial naive Bayes on the same data: {:.2f} % (smoothing {})\n",
                 100 * bayes.top_1, bayes.smoothing);
    }
    return {};
  }

 private:
  const TrainOptions& options_;
  TrainData data_;
  std::unique_ptr<trainer::SparseModel> model_;
};

}  // namespace

Result<std::unique_ptr<TrainSubject>> make_sample_subject(const TrainOptions& options) {
  auto data = load_train_data(options);
  if (!data) return fail(data.error());
  auto model = trainer::make_sparse_model(options.model, {.classes = data->classes,
                                                          .factors = options.factors,
                                                          .fields = data->fields,
                                                          .hidden = options.hidden_layers()});
  if (!model) return fail(model.error());
  return std::make_unique<SampleSubject>(options, std::move(*data), std::move(*model));
}

Result<std::unique_ptr<TrainSubject>> make_train_subject(const TrainOptions& options) {
  return options.model == "word2vec" ? make_word_subject(options) : make_sample_subject(options);
}

}  // namespace sumcast::cli
