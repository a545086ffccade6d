// word2vec as what `sumcast train` trains: texts, their pairs of words, and the vectors at the end.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/prng.h"
#include "cli/train_data.h"
#include "cli/train_order.h"
#include "cli/train_task.h"
#include "cli/word_vectors.h"
#include "dataset/texts.h"
#include "dataset/vocabulary.h"
#include "trainer/skip_gram.h"

namespace sumcast::cli {
namespace {

constexpr size_t kTestTexts = 256;  // Of a worker in one reading.

struct WordData {
  dataset::Vocabulary vocabulary;
  dataset::WordTexts train, test;
};

class WordTask final : public TrainTask {
 public:
  WordTask(const WordData& data, const trainer::SkipGram& model, const TrainOptions& options,
           uint32_t rank)
      : data_(data),
        model_(model),
        options_(options),
        rank_(rank),
        batches_(options.staleness + 2) {}

  uint64_t steps() const override { return steps_of(data_.train.size(), options_); }
  void begin_epoch(uint32_t epoch) override {
    epoch_ = epoch;
    order_ = epoch_order(data_.train.size(), epoch, options_);
  }

  /// What is drawn depends on seed, rank, epoch and step alone.
  const std::vector<uint64_t>& make_batch(uint64_t step) override {
    trainer::SkipGramBatch& batch = batches_[step % batches_.size()];
    batch.clear();
    Prng random(((options_.seed * 1'000'003 + epoch_) * 1'000'003 + step) * 1'009 + rank_);
    for (const uint32_t place : share_of_step(order_, step, rank_, options_)) {
      model_.add_text(data_.train.text(place), random, batch);
    }
    return batch.keys;
  }

  TrainLoss learn(uint64_t step, const trainer::ModelView& model,
                  const trainer::GradientView& gradients) override {
    const float share = 1.0f / static_cast<float>(uint64_t{options_.workers} * options_.batch);
    const trainer::SkipGramScore score =
        model_.learn(batches_[step % batches_.size()], model.rows, share, gradients.rows);
    return {score.loss, score.real};
  }

  Result<void> evaluate(sparse::Worker& rows, const float* dense, TrainEpoch& result) override;

 private:
  const WordData& data_;
  const trainer::SkipGram& model_;
  const TrainOptions& options_;
  uint32_t rank_;
  uint32_t epoch_ = 0;
  std::vector<uint32_t> order_;                  // Of the training texts in this epoch.
  std::vector<trainer::SkipGramBatch> batches_;  // By step.
};

/// Every worker takes a share of the test's texts, with the same pairs and negatives every time.
Result<void> WordTask::evaluate(sparse::Worker& rows, const float*, TrainEpoch& result) {
  const size_t share = (data_.test.size() + options_.workers - 1) / options_.workers;
  const size_t first = std::min(rank_ * share, data_.test.size());
  const size_t end = std::min(first + share, data_.test.size());
  Prng random(options_.seed * 77'003 + rank_);
  trainer::SkipGramBatch batch;
  std::vector<float> memory;
  std::vector<const float*> views;
  std::array<double, 4> sums{};  // Loss, pairs, negatives below, negatives.
  for (size_t at = 0; at < share; at += kTestTexts) {
    batch.clear();
    const size_t begin = std::min(first + at, end), stop = std::min(begin + kTestTexts, end);
    for (size_t i = begin; i < stop; ++i) model_.add_text(data_.test.text(i), random, batch);
    const size_t width = model_.options().width;
    if (auto read = peek_rows(rows, batch.keys, width, memory, views); !read) return read;
    const trainer::SkipGramScore score = model_.measure(batch, views);
    sums[0] += score.loss;
    sums[1] += static_cast<double>(score.real);
    sums[2] += score.above;
    sums[3] += static_cast<double>(score.drawn);
  }
  auto summed = rows.all_reduce(std::span<double>(sums));
  if (!summed) return summed;
  result.test_loss = sums[1] > 0 ? sums[0] / sums[1] : 0;
  result.auc = sums[3] > 0 ? sums[2] / sums[3] : 0.5;
  return {};
}

class WordSubject final : public TrainSubject {
 public:
  WordSubject(const TrainOptions& options, std::unique_ptr<WordData> data)
      : options_(options),
        data_(std::move(data)),
        model_(data_->vocabulary, {.width = options.vector_width,
                                   .window = options.window,
                                   .negatives = options.negatives,
                                   .thin = options.thin}) {}

  uint32_t width() const override { return model_.options().width; }
  float init_scale() const override { return model_.init_scale(); }
  std::unique_ptr<TrainTask> make_task(uint32_t rank) const override {
    return std::make_unique<WordTask>(*data_, model_, options_, rank);
  }

  /// Negatives included: what is hot is what training touches.
  hotset::Corpus sample() const override {
    hotset::Corpus corpus;
    trainer::SkipGramBatch batch;
    Prng random(options_.seed * 31 + 7);
    for (const size_t place : sampled(data_->train.size(), options_)) {
      batch.clear();
      model_.add_text(data_->train.text(place), random, batch);
      corpus.add_row(batch.keys);
    }
    return corpus;
  }

  std::string describe() const override {
    return fmt::format("{} texts to train, {} to test, {} words", data_->train.size(),
                       data_->test.size(), data_->vocabulary.size());
  }

  Result<void> finish(sparse::Worker& rows, bool speaks) const override {
    if (options_.vectors.empty() && options_.nearest.empty()) return {};
    auto vectors = read_vectors(rows, data_->vocabulary, model_, speaks);
    if (!vectors) return fail(vectors.error());
    if (!speaks) return {};
    if (!options_.vectors.empty()) {
      auto written = write_vectors(options_.vectors, data_->vocabulary, *vectors, width());
      if (!written) return written;
    }
    if (!options_.nearest.empty()) {
      show_nearest(options_.nearest, data_->vocabulary, *vectors, width(), options_.json);
    }
    return {};
  }

 private:
  const TrainOptions& options_;
  std::unique_ptr<WordData> data_;
  trainer::SkipGram model_;
};

/// Words are counted in what is trained on; so the source is read twice, or kept once.
Result<std::unique_ptr<WordData>> load_words(const TrainOptions& options) {
  struct Line {
    std::string text;
    bool is_test = false;
  };
  std::vector<Line> lines;
  const auto keep = [&](const dataset::Text& text) {
    lines.push_back(
        {std::string(text.words), options.test.empty() && is_test(text.group, options)});
  };
  if (auto read = dataset::for_each_text(options.data, keep); !read) return fail(read.error());
  if (!options.test.empty()) {
    const auto keep_test = [&](const dataset::Text& text) {
      lines.push_back({std::string(text.words), true});
    };
    auto read = dataset::for_each_text(options.test, keep_test);
    if (!read) return fail(read.error());
  }
  auto data = std::make_unique<WordData>();
  for (const Line& line : lines) {
    if (!line.is_test) data->vocabulary.count(line.text);
  }
  data->vocabulary.finish(options.count_min);
  for (const Line& line : lines) {
    (line.is_test ? data->test : data->train).add(data->vocabulary, line.text);
  }
  if (data->vocabulary.size() >= 2 && data->train.size() > 0 && data->test.size() > 0) return data;
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("{}: {} words that come {} times or more, {} texts to train and {} to "
                          "test; two words and a text of each kind are needed (--min-count, "
                          "--test-share)",
                          options.data, data->vocabulary.size(), options.count_min,
                          data->train.size(), data->test.size()));
}

}  // namespace

Result<std::unique_ptr<TrainSubject>> make_word_subject(const TrainOptions& options) {
  if (!options.vectors.empty()) {
    if (auto fine = check_vector_file(options.vectors); !fine) return fail(fine.error());
  }
  auto data = load_words(options);
  if (!data) return fail(data.error());
  const auto& nearest = options.nearest;
  if (!nearest.empty() && (*data)->vocabulary.find(nearest) == dataset::Vocabulary::kUnknown) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("--nearest {}: the texts do not have this word {} times (--min-count)",
                            nearest, options.count_min));
  }
  return std::make_unique<WordSubject>(options, std::move(*data));
}

}  // namespace sumcast::cli
