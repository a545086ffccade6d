#include "trainer/train_parts.h"

#include <fmt/format.h>

#include <algorithm>

#include "trainer/adamw.h"
#include "trainer/sgd.h"

namespace sumcast::trainer {

Mlp make_model(const FashionMnist& data, const TrainOptions& options) {
  std::vector<int> widths = {static_cast<int>(data.training.pixels_per_image())};
  widths.insert(widths.end(), options.hidden.begin(), options.hidden.end());
  widths.push_back(kClasses);
  return Mlp(widths, options.seed);
}

size_t images_used(const FashionMnist& data, const TrainOptions& options) {
  if (options.limit_images == 0) return data.training.count;
  return std::min(data.training.count, static_cast<size_t>(options.limit_images));
}

Result<void> check_training(const FashionMnist& data, uint32_t workers,
                            const TrainOptions& options) {
  if (const auto problems = options.validate(); !problems.empty()) {
    return fail(ErrorCode::kInvalidArgument, fmt::format("{}", fmt::join(problems, "; ")));
  }
  const size_t per_step =
      static_cast<size_t>(options.batch) * static_cast<size_t>(options.accumulate) * workers;
  if (const size_t images = images_used(data, options); images < per_step) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{} images are too few for one step of {} workers with a batch of {}; "
                            "use more images or a smaller batch",
                            images, workers, options.batch));
  }
  const auto steps =
      static_cast<uint64_t>(options.epochs) * (images_used(data, options) / per_step);
  if (options.pipeline.width > steps) {
    return fail(
        ErrorCode::kInvalidArgument,
        fmt::format("a width of {} is more than the {} steps of the run; use a smaller width "
                    "or more epochs",
                    options.pipeline.width, steps));
  }
  return {};
}

std::unique_ptr<pipeline::UpdateRule> make_rule(const TrainOptions& options) {
  if (options.optimiser == Optimiser::kSgd) return std::make_unique<Sgd>(options.momentum);
  AdamW::Options adam;
  adam.beta1 = options.momentum;
  adam.decay = options.weight_decay;
  return std::make_unique<AdamW>(adam);
}

}  // namespace sumcast::trainer
