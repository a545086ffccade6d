#include "trainer/train.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/assert.h"
#include "trainer/mlp.h"
#include "trainer/sgd.h"

namespace sumcast::trainer {
namespace {

Duration median(std::vector<Duration> spans) {
  if (spans.empty()) return Duration{};
  const auto middle = spans.begin() + static_cast<ptrdiff_t>(spans.size() / 2);
  std::nth_element(spans.begin(), middle, spans.end());
  return *middle;
}

Mlp make_model(const FashionMnist& data, const TrainOptions& options) {
  std::vector<int> widths = {static_cast<int>(data.training.pixels_per_image())};
  widths.insert(widths.end(), options.hidden.begin(), options.hidden.end());
  widths.push_back(kClasses);
  return Mlp(std::move(widths), options.seed);
}

size_t images_used(const FashionMnist& data, const TrainOptions& options) {
  if (options.limit_images == 0) return data.training.count;
  return std::min(data.training.count, static_cast<size_t>(options.limit_images));
}

Result<void> check(const FashionMnist& data, Place place, const TrainOptions& options) {
  if (const auto problems = options.validate(); !problems.empty()) {
    return fail(ErrorCode::kInvalidArgument, fmt::format("{}", fmt::join(problems, "; ")));
  }
  const size_t per_step = static_cast<size_t>(options.batch) * place.world;
  if (const size_t images = images_used(data, options); images < per_step) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{} images are too few for one step of {} workers with a batch of {}; "
                            "use more images or a smaller batch",
                            images, place.world, options.batch));
  }
  return {};
}

}  // namespace

std::vector<std::string> TrainOptions::validate() const {
  std::vector<std::string> problems;
  const auto require = [&](bool holds, std::string problem) {
    if (!holds) problems.push_back(std::move(problem));
  };
  require(epochs >= 1, fmt::format("epochs must be at least 1, not {}", epochs));
  require(batch >= 1, fmt::format("batch must be at least 1, not {}", batch));
  require(rate > 0.0f, fmt::format("rate must be above 0, not {}", rate));
  require(momentum >= 0.0f && momentum < 1.0f,
          fmt::format("momentum must be in [0, 1), not {}", momentum));
  require(warmup_share >= 0.0f && warmup_share < 1.0f,
          fmt::format("warmup_share must be in [0, 1), not {}", warmup_share));
  require(limit_images >= 0, fmt::format("limit_images must not be negative, is {}", limit_images));
  require(std::all_of(hidden.begin(), hidden.end(), [](int width) { return width >= 1; }),
          "every hidden width must be at least 1");
  return problems;
}

Result<TrainOutcome> train(const FashionMnist& data, Place place, const TrainOptions& options,
                           const ReduceFn& reduce, const ProgressFn& progress, const ClockFn& now) {
  SUMCAST_ASSERT(reduce && now);
  if (auto checked = check(data, place, options); !checked) return fail(checked.error());
  Mlp model = make_model(data, options);
  Sgd sgd(model.parameters().size(), options.momentum);
  BatchSampler sampler(place, images_used(data, options), static_cast<size_t>(options.batch),
                       options.seed);
  const int steps = options.epochs * static_cast<int>(sampler.steps_per_epoch());
  const int warmup = static_cast<int>(options.warmup_share * static_cast<float>(steps));
  TrainOutcome outcome;
  std::vector<Duration> step_times, reduce_times;
  Batch batch;
  for (int step = 0; step < steps; ++step) {
    const size_t step_of_epoch = static_cast<size_t>(step) % sampler.steps_per_epoch();
    const size_t epoch = static_cast<size_t>(step) / sampler.steps_per_epoch();
    const Instant start = now();
    if (step_of_epoch == 0) sampler.start_epoch(epoch);
    gather(data.training, sampler.indices(step_of_epoch), batch);
    const float loss = model.forward_backward(batch);
    const Instant reduce_start = now();
    if (auto reduced = reduce(model.gradients()); !reduced) {
      return fail(reduced.error().within(fmt::format("training step {} of {}", step + 1, steps)));
    }
    reduce_times.push_back(now() - reduce_start);
    sgd.step(model.parameters(), model.gradients(),
             learning_rate(options.rate, warmup, step, steps));
    step_times.push_back(now() - start);
    outcome.losses.push_back(loss);
    if (progress) progress(TrainProgress{step + 1, steps, loss});
  }
  outcome.step_median = median(std::move(step_times));
  outcome.reduce_median = median(std::move(reduce_times));
  outcome.gradient_bytes = model.gradients().size_bytes();
  if (place.rank.value == 0) outcome.accuracy = model.accuracy(data.test);
  outcome.weights_hash = hash_of_bits(model.parameters());
  return outcome;
}

}  // namespace sumcast::trainer
