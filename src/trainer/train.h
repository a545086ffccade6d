// The training loop of one worker: gradient, reduction, update, over and over.
//
// The means come from an Averager, time from a function; the loop knows neither what network there
// is nor which method sums. How late a gradient is applied, and with which remedies, is the
// pipeline's part (pipeline/pipeline.h): with width 1, the default, gradient, mean and update
// follow each other. Whatever the method, a worker computes the same steps on the same images, so
// runs can be compared weight by weight.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "pipeline/pipeline.h"
#include "trainer/idx.h"
#include "trainer/sharding.h"

namespace sumcast::trainer {

using ClockFn = std::function<Instant()>;

struct TrainProgress {
  int step = 0;  ///< Steps done, 1 to `steps`.
  int steps = 0;
  float loss = 0.0f;  ///< This rank's mean loss in the step just done.
};
using ProgressFn = std::function<void(const TrainProgress&)>;

enum class Optimiser : uint8_t {
  kSgd,    ///< With momentum.
  kAdamW,  ///< `momentum` is its first beta; the second is 0.999.
};

/// With 4 workers the defaults reach 88.2 to 88.7 % on Fashion-MNIST (seeds 1 to 6); rates from
/// 0.1 to 0.2 stay within half a point of that.
struct TrainOptions {
  int epochs = 3;
  int batch = 128;     ///< Images per worker and micro-batch.
  int accumulate = 1;  ///< Micro-batches per step, summed once.
  Optimiser optimiser = Optimiser::kSgd;
  float weight_decay = 0.0f;             ///< AdamW's; SGD has none.
  float rate = 0.15f;                    ///< Peak of the learning rate.
  float momentum = 0.9f;                 ///< Share of the last step's velocity that is kept.
  float warmup_share = 0.2f;             ///< Share of all steps over which the rate rises.
  uint64_t seed = 1;                     ///< Of initial weights and of the order of images.
  int limit_images = 0;                  ///< Train on the first so many images only; 0 means all.
  std::vector<int> hidden = {512, 512};  ///< Widths of the hidden layers.
  bool score_epochs = false;  ///< Rank 0 evaluates after each epoch, not only at the end.
  pipeline::PipelineOptions pipeline = synchronous();
  /// Makes what encodes this rank's gradients; empty: nothing does.
  std::function<std::unique_ptr<pipeline::Encoder>()> encoder;

  /// Width 1: gradient, mean, update.
  static pipeline::PipelineOptions synchronous() {
    pipeline::PipelineOptions options;
    options.width = 1;
    return options;
  }

  /// All that is wrong with these options, one line each; empty if they can be used.
  std::vector<std::string> validate() const;
};

struct TrainOutcome {
  std::vector<float> losses;       ///< This rank's mean loss, one per step.
  Duration step_median{};          ///< From the gathering of images to the updated weights.
  Duration reduce_median{};        ///< The part of a step in which it waited for the other ranks.
  size_t gradient_bytes = 0;       ///< What one reduction reduces.
  std::optional<double> accuracy;  ///< On the test images, 0 to 1; only rank 0 evaluates.
  std::vector<double> epoch_accuracies;  ///< After each epoch, if that was asked for; rank 0 only.
  std::optional<int> fell_back;          ///< The step in which the guard gave up the pipeline.
  std::string fell_back_reason;
  uint32_t width = 1;  ///< In force at the end, and the averager's way.
  uint32_t way = 0;
  struct Retuning {
    int step = 0;  ///< From 1.
    uint32_t width = 1, way = 0;
    std::string reason;
  };
  std::vector<Retuning> retunings;  ///< If options.pipeline.tune; the same on all ranks.
  uint64_t weights_hash = 0;  ///< pipeline::hash_of_bits of the final weights: equal on all ranks.
};

/// Trains from scratch. All ranks must pass the same options and data, each its own place, which is
/// that of `averager`. What is in flight is applied at the end of each epoch.
/// Errors: kInvalidArgument for options that do not fit the data; else what `averager` returned,
/// with the step in front. `progress` may be empty.
Result<TrainOutcome> train(const FashionMnist& data, Place place, const TrainOptions& options,
                           pipeline::Averager& averager, const ProgressFn& progress,
                           const ClockFn& now);

}  // namespace sumcast::trainer
