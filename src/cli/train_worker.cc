#include "cli/train_worker.h"

#include <algorithm>
#include <numeric>

#include "base/prng.h"
#include "runtime/clock.h"

namespace sumcast::cli {
namespace {

constexpr size_t kTestBatch = 512;  // Samples of a worker in one reading.

}  // namespace

uint64_t TrainWorker::steps() const {
  const uint64_t together = uint64_t{options_.workers} * options_.batch;
  return (data_.train.size() + together - 1) / together;
}

/// Another order each epoch, the same on all workers.
void TrainWorker::shuffle(uint32_t epoch) {
  order_.resize(data_.train.size());
  std::iota(order_.begin(), order_.end(), 0u);
  Prng random(options_.seed * 1'000'003 + epoch);
  for (size_t i = order_.size(); i > 1; --i) std::swap(order_[i - 1], order_[random.below(i)]);
}

void TrainWorker::fill_batch(uint64_t step, trainer::SparseBatch& batch) const {
  batch.clear();
  const uint64_t first = (step * options_.workers + rank_) * options_.batch;
  const uint64_t end = std::min<uint64_t>(first + options_.batch, order_.size());
  for (uint64_t i = first; i < end; ++i) batch.add(data_.train[order_[i]]);
}

/// @return the mean loss of this worker's samples, each before its step.
Result<double> TrainWorker::train(const std::function<void(uint64_t)>& on_step) {
  const uint64_t together = uint64_t{options_.workers} * options_.batch;
  trainer::SparseBatch batch, next;
  std::vector<float> gradients;
  std::vector<const float*> rows;
  fill_batch(0, batch);
  if (auto pulled = rows_.pull(batch.keys); !pulled) return fail(pulled.error());
  double loss = 0;
  size_t samples = 0;
  for (uint64_t step = 0; step < steps(); ++step) {
    rows.resize(batch.keys.size());
    for (size_t i = 0; i < rows.size(); ++i) rows[i] = rows_.row(i);
    gradients.resize(batch.keys.size() * model_.width());
    const uint64_t in_step = std::min<uint64_t>(together, order_.size() - step * together);
    loss += model_.learn(batch, rows, 1.0f / static_cast<float>(in_step), gradients.data());
    samples += batch.size();
    if (step + 1 < steps()) {
      fill_batch(step + 1, next);
    } else {
      next.clear();
    }
    if (auto done = rows_.push_pull(gradients.data(), next.keys); !done) return fail(done.error());
    std::swap(batch, next);
    if (on_step) on_step(step + 1);
  }
  return samples == 0 ? 0 : loss / static_cast<double>(samples);
}

/// Every worker predicts its share of the test samples; all get all predictions.
Result<void> TrainWorker::evaluate(TrainEpoch& result) {
  const size_t share = (data_.test.size() + options_.workers - 1) / options_.workers;
  const size_t scores = model_.scores();
  std::vector<float> all(share * options_.workers * scores);
  float* const mine = all.data() + rank_ * share * scores;
  const size_t first = std::min(rank_ * share, data_.test.size());
  const size_t end = std::min(first + share, data_.test.size());
  trainer::SparseBatch batch;
  std::vector<float> weights;
  std::vector<const float*> rows;
  // As many readings on every worker, empty ones too.
  for (size_t at = 0; at < share; at += kTestBatch) {
    batch.clear();
    const size_t begin = std::min(first + at, end), stop = std::min(begin + kTestBatch, end);
    for (size_t i = begin; i < stop; ++i) batch.add(data_.test[i]);
    weights.resize(batch.keys.size() * model_.width());
    if (auto read = rows_.peek(batch.keys, weights.data()); !read) return read;
    rows.resize(batch.keys.size());
    for (size_t i = 0; i < rows.size(); ++i) rows[i] = weights.data() + i * model_.width();
    model_.predict(batch, rows, mine + at * scores);
  }
  auto gathered = rows_.group().all_gather(mine, all.data(), share * scores, ElementType::kF32);
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

Result<TrainEpoch> TrainWorker::run_epoch(uint32_t epoch,
                                          const std::function<void(uint64_t)>& on_step) {
  TrainEpoch result;
  result.epoch = epoch;
  result.steps = steps();
  shuffle(epoch);
  const Instant begun = runtime::monotonic_now();
  auto loss = train(on_step);
  if (!loss) return fail(loss.error());
  result.seconds = std::chrono::duration<double>(runtime::monotonic_now() - begun).count();
  double mean = *loss;
  auto summed = rows_.group().all_reduce(std::span<double>(&mean, 1), Reduction::kAvg);
  if (!summed) return fail(summed.error());
  result.train_loss = mean;
  if (auto done = evaluate(result); !done) return fail(done.error());
  const sparse::WorkerCounters& counters = rows_.counters();
  const auto pushed = static_cast<double>(counters.hot_pushed + counters.cold_pushed);
  result.hot_share = pushed > 0 ? static_cast<double>(counters.hot_pushed) / pushed : 0;
  return result;
}

}  // namespace sumcast::cli
