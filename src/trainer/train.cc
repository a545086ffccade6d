#include "trainer/train.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "pipeline/weights_hash.h"
#include "trainer/sgd.h"
#include "trainer/train_parts.h"

namespace sumcast::trainer {
namespace {

Duration median(std::vector<Duration> spans) {
  if (spans.empty()) return Duration{};
  const auto middle = spans.begin() + static_cast<ptrdiff_t>(spans.size() / 2);
  std::nth_element(spans.begin(), middle, spans.end());
  return *middle;
}

/// Passes on, and adds up the time that the caller spends in it.
class TimedAverager final : public pipeline::Averager {
 public:
  TimedAverager(pipeline::Averager& inner, const ClockFn& now) : inner_(inner), now_(now) {}

  uint32_t ranks() const override { return inner_.ranks(); }
  uint32_t rank() const override { return inner_.rank(); }
  uint32_t ways() const override { return inner_.ways(); }
  void choose(uint32_t way) override { inner_.choose(way); }
  Result<void> begin_mean(uint32_t slot, std::span<const float> values,
                          std::span<float> mean) override {
    return timed([&] { return inner_.begin_mean(slot, values, mean); });
  }
  Result<void> finish_mean(uint32_t slot) override {
    return timed([&] { return inner_.finish_mean(slot); });
  }
  Result<void> begin_sum(uint32_t slot, std::span<double> values) override {
    return timed([&] { return inner_.begin_sum(slot, values); });
  }
  Result<void> finish_sum(uint32_t slot) override {
    return timed([&] { return inner_.finish_sum(slot); });
  }
  Duration take_spent() { return std::exchange(spent_, Duration{}); }

 private:
  template <typename Call>
  Result<void> timed(const Call& call) {
    const Instant start = now_();
    Result<void> result = call();
    spent_ += now_() - start;
    return result;
  }

  pipeline::Averager& inner_;
  const ClockFn& now_;
  Duration spent_{};
};

/// One training from its first step to its outcome.
class Run {
 public:
  Run(const FashionMnist& data, Place place, const TrainOptions& options,
      pipeline::Averager& averager, const ClockFn& now)
      : data_(data),
        place_(place),
        options_(options),
        now_(now),
        averager_(averager, now),
        model_(make_model(data, options)),
        rule_(make_rule(options)),
        pipeline_(options.pipeline, *rule_, averager_, model_.parameters(),
                  options.encoder ? options.encoder() : nullptr, now),
        sampler_(place, images_used(data, options), images_per_step(options), options.seed) {}

  Result<TrainOutcome> all(const ProgressFn& progress) {
    const int per_epoch = static_cast<int>(sampler_.steps_per_epoch());
    const int steps = options_.epochs * per_epoch;
    const int warmup = static_cast<int>(options_.warmup_share * static_cast<float>(steps));
    for (int step = 0; step < steps; ++step) {
      const Instant start = now_();
      if (step % per_epoch == 0) sampler_.start_epoch(static_cast<uint64_t>(step / per_epoch));
      const float loss = backward(static_cast<size_t>(step % per_epoch));
      const float rate = learning_rate(options_.rate, warmup, step, steps);
      if (auto done = advance(step, loss, rate); !done) {
        return fail(done.error().within(fmt::format("training step {} of {}", step + 1, steps)));
      }
      const bool epoch_ends = (step + 1) % per_epoch == 0;
      if (epoch_ends) {
        auto flushed = pipeline_.flush();
        if (!flushed) return fail(flushed.error());
        note(step, *flushed);
      }
      reduce_times_.push_back(averager_.take_spent());
      step_times_.push_back(now_() - start);
      outcome_.losses.push_back(loss);
      if (progress) progress(TrainProgress{step + 1, steps, loss});
      if (epoch_ends && options_.score_epochs && place_.rank.value == 0) {
        outcome_.epoch_accuracies.push_back(model_.accuracy(data_.test));
      }
    }
    outcome_.step_median = median(std::move(step_times_));
    outcome_.reduce_median = median(std::move(reduce_times_));
    outcome_.gradient_bytes = model_.gradients().size_bytes();
    if (place_.rank.value == 0) outcome_.accuracy = model_.accuracy(data_.test);
    outcome_.width = pipeline_.width();
    outcome_.way = pipeline_.way();
    outcome_.weights_hash = pipeline::hash_of_bits(pipeline_.committed());
    return std::move(outcome_);
  }

  static size_t images_per_step(const TrainOptions& options) {
    return static_cast<size_t>(options.batch) * static_cast<size_t>(options.accumulate);
  }

 private:
  /// Leaves the mean gradient over the step's micro-batches in the model; returns the mean loss.
  float backward(size_t step_of_epoch) {
    const std::span<const uint32_t> images = sampler_.indices(step_of_epoch);
    const auto micro = static_cast<size_t>(options_.batch);
    float loss = 0.0f;
    for (size_t first = 0; first < images.size(); first += micro) {
      gather(data_.training, images.subspan(first, micro), batch_);
      loss += model_.forward_backward(batch_);
      if (options_.accumulate == 1) return loss;
      accumulated_.resize(model_.gradients().size());
      const std::span<const float> part = model_.gradients();
      for (size_t i = 0; i < part.size(); ++i) {
        accumulated_[i] = first == 0 ? part[i] : accumulated_[i] + part[i];
      }
    }
    const float share = 1.0f / static_cast<float>(options_.accumulate);
    for (size_t i = 0; i < accumulated_.size(); ++i)
      model_.gradients()[i] = share * accumulated_[i];
    return loss * share;
  }

  Result<void> advance(int step, float loss, float rate) {
    auto report = pipeline_.step(model_.gradients(), loss, rate);
    if (!report) return fail(report.error());
    note(step, *report);
    return {};
  }

  void note(int step, const pipeline::StepReport& report) {
    if (report.fell_back) {
      outcome_.fell_back = step + 1;
      outcome_.fell_back_reason = *report.fell_back;
    }
    if (report.retuned) {
      outcome_.retunings.push_back({step + 1, pipeline_.width(), pipeline_.way(), *report.retuned});
    }
  }

  const FashionMnist& data_;
  Place place_;
  const TrainOptions& options_;
  const ClockFn& now_;
  TimedAverager averager_;
  Mlp model_;
  std::unique_ptr<pipeline::UpdateRule> rule_;
  pipeline::Pipeline pipeline_;
  BatchSampler sampler_;
  Batch batch_;
  std::vector<float> accumulated_;
  TrainOutcome outcome_;
  std::vector<Duration> step_times_, reduce_times_;
};

}  // namespace

std::vector<std::string> TrainOptions::validate() const {
  std::vector<std::string> problems;
  const auto require = [&](bool holds, std::string problem) {
    if (!holds) problems.push_back(std::move(problem));
  };
  require(epochs >= 1, fmt::format("epochs must be at least 1, not {}", epochs));
  require(batch >= 1, fmt::format("batch must be at least 1, not {}", batch));
  require(accumulate >= 1, fmt::format("accumulate must be at least 1, not {}", accumulate));
  require(rate > 0.0f, fmt::format("rate must be above 0, not {}", rate));
  require(momentum >= 0.0f && momentum < 1.0f,
          fmt::format("momentum must be in [0, 1), not {}", momentum));
  require(warmup_share >= 0.0f && warmup_share < 1.0f,
          fmt::format("warmup_share must be in [0, 1), not {}", warmup_share));
  require(limit_images >= 0, fmt::format("limit_images must not be negative, is {}", limit_images));
  require(std::all_of(hidden.begin(), hidden.end(), [](int width) { return width >= 1; }),
          "every hidden width must be at least 1");
  require(weight_decay >= 0.0f,
          fmt::format("weight_decay must not be negative, is {}", weight_decay));
  for (std::string& problem : pipeline.validate()) problems.push_back(std::move(problem));
  return problems;
}

Result<TrainOutcome> train(const FashionMnist& data, Place place, const TrainOptions& options,
                           pipeline::Averager& averager, const ProgressFn& progress,
                           const ClockFn& now) {
  SUMCAST_ASSERT(now);
  SUMCAST_ASSERT(averager.rank() == place.rank.value && averager.ranks() == place.world);
  if (auto checked = check_training(data, place.world, options); !checked)
    return fail(checked.error());
  return Run(data, place, options, averager, now).all(progress);
}

}  // namespace sumcast::trainer
