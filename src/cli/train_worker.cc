#include "cli/train_worker.h"

#include <algorithm>
#include <array>

#include "runtime/clock.h"

namespace sumcast::cli {
namespace {

constexpr uint64_t kParts = 10;  // Of an epoch, for the hot share over time.

}  // namespace

TrainWorker::TrainWorker(sparse::Worker& rows, const TrainSubject& subject,
                         const TrainOptions& options, const sparse::Options& job,
                         const HotChoice& hot, uint32_t rank)
    : rows_(rows),
      task_(subject.make_task(rank)),
      watch_(hot, options, job, rank),
      dense_rule_(job.shape.optimizer),
      ahead_(job.staleness),
      width_(subject.width()),
      parameters_(subject.dense()),
      dense_(parameters_ + job.shape.optimizer.state_lanes(parameters_)),
      dense_gradients_(parameters_),
      saver_(rows, options, dense_, rank) {
  dense_rule_.rate = options.dense_rate;
  if (parameters_ == 0) return;
  subject.draw_dense(options.seed, dense_.data());
  dense_rule_.reset(dense_.data() + parameters_, parameters_);
  rows_.take_dense([this](std::span<const float> sum) {
    dense_rule_.step(dense_.data(), dense_.data() + parameters_, sum.data(), parameters_);
  });
}

TrainWorker::~TrainWorker() { rows_.take_dense({}); }

Result<void> TrainWorker::ask_from(uint64_t step) {
  keys_.assign(1, &task_->make_batch(step));
  if (auto pulled = rows_.pull(*keys_.front()); !pulled) return pulled;
  for (uint64_t later = step + 1; later <= std::min(step + ahead_, steps() - 1); ++later) {
    keys_.push_back(&task_->make_batch(later));
    if (auto asked = rows_.announce(*keys_.back()); !asked) return asked;
  }
  return {};
}

Result<void> TrainWorker::move(uint64_t step, TrainEpoch& result) {
  static const std::vector<uint64_t> kNone;
  watch_.on_round(*keys_.front());
  auto hot = watch_.decide(rows_);
  if (!hot) return fail(hot.error());
  keys_.pop_front();
  // The dense gradients' sum travels beside the rows of the same step.
  if (!*hot) {
    const uint64_t next = step + 1 + ahead_;
    keys_.push_back(next < steps() ? &task_->make_batch(next) : &kNone);
    return rows_.push_pull(gradients_.data(), *keys_.back(), dense_gradients_);
  }
  if (auto done = rows_.push_pull(gradients_.data(), {}, dense_gradients_); !done) return done;
  if (auto set = rows_.set_hot((*hot)->keys); !set) return set;
  ++result.swaps;
  result.swapped_keys += (*hot)->fresh;
  return step + 1 < steps() ? ask_from(step + 1) : Result<void>();
}

double TrainWorker::share_since(const sparse::WorkerCounters& before) const {
  const sparse::WorkerCounters& now = rows_.counters();
  const auto hot = static_cast<double>(now.hot_pushed - before.hot_pushed);
  const double all = hot + static_cast<double>(now.cold_pushed - before.cold_pushed);
  return all > 0 ? hot / all : 0;
}

/// @return the loss of this worker's examples, each before its step.
Result<TrainLoss> TrainWorker::train(const TrainPosition& from, TrainEpoch& result,
                                     const std::function<void(uint64_t)>& on_step) {
  const uint64_t steps = task_->steps();
  TrainLoss loss = from.loss;
  if (from.step >= steps) return loss;
  if (auto asked = ask_from(from.step); !asked) return fail(asked.error());
  std::vector<const float*> rows;
  const sparse::WorkerCounters before = rows_.counters();
  sparse::WorkerCounters part = before;
  for (uint64_t step = from.step; step < steps; ++step) {
    rows.resize(keys_.front()->size());
    for (size_t i = 0; i < rows.size(); ++i) rows[i] = rows_.row(i);
    gradients_.resize(rows.size() * width_);
    const TrainLoss one =
        task_->learn(step, {rows, dense_.data()}, {gradients_.data(), dense_gradients_.data()});
    loss.sum += one.sum;
    loss.examples += one.examples;
    if (auto moved = move(step, result); !moved) return fail(moved.error());
    if (step + 1 < steps) {
      auto saved = saver_.after_step({.epoch = result.epoch, .step = step + 1, .loss = loss});
      if (!saved) return fail(saved.error());
    }
    if ((step + 1) * kParts / steps != step * kParts / steps) {
      result.hot_shares.push_back(share_since(part));
      part = rows_.counters();
    }
    if (on_step) on_step(step + 1);
  }
  result.hot_share = share_since(before);
  return loss;
}

Result<TrainEpoch> TrainWorker::run_epoch(const TrainPosition& from,
                                          const std::function<void(uint64_t)>& on_step) {
  TrainEpoch result;
  result.epoch = from.epoch;
  result.steps = steps() - std::min(from.step, steps());
  task_->begin_epoch(from.epoch);
  const Instant begun = runtime::monotonic_now();
  auto loss = train(from, result, on_step);
  if (!loss) return fail(loss.error());
  std::array<double, 2> all = {loss->sum, static_cast<double>(loss->examples)};
  auto summed = rows_.all_reduce(std::span<double>(all));
  if (!summed) return fail(summed.error());
  // All rounds are over.
  result.seconds = std::chrono::duration<double>(runtime::monotonic_now() - begun).count();
  result.train_loss = all[1] > 0 ? all[0] / all[1] : 0;
  if (auto done = task_->evaluate(rows_, dense_.data(), result); !done) return fail(done.error());
  return result;
}

}  // namespace sumcast::cli
