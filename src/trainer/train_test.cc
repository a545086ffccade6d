#include "trainer/train.h"

#include <gtest/gtest.h>

#include <barrier>
#include <filesystem>
#include <numeric>
#include <thread>

#include "base/prng.h"
#include "pipeline/weights_hash.h"
#include "trainer/mlp.h"
#include "trainer/sgd.h"

namespace sumcast::trainer {
namespace {

/// Images of 8x8 pixels in which a bright row tells the class (rows 8 and 9 are columns 0 and 1),
/// under noise: learnt within a few steps.
ImageSet striped_images(size_t count, uint64_t seed) {
  Prng prng(seed);
  ImageSet set{count, 8, 8, std::vector<uint8_t>(count * 64), std::vector<uint8_t>(count)};
  for (size_t i = 0; i < count; ++i) {
    const auto label = static_cast<uint8_t>(prng.below(kClasses));
    set.labels[i] = label;
    for (size_t p = 0; p < 64; ++p) {
      const bool bright = label < 8 ? p / 8 == label : p % 8 == label - 8u;
      set.pixels[i * 64 + p] = static_cast<uint8_t>(prng.below(100) + (bright ? 120 : 0));
    }
  }
  return set;
}

FashionMnist striped_data() { return {striped_images(640, 1), striped_images(200, 2)}; }

TrainOptions small_options() {
  TrainOptions options;
  options.batch = 32;
  options.hidden = {24};
  return options;
}

/// One rank.
pipeline::BlockingAverager alone;

/// A clock that moves by 1 ms at each look.
ClockFn ticking() {
  return [time = Instant{1}]() mutable { return time = time + 1ms; };
}

TEST(Train, LossFallsAndUnseenImagesAreRecognised) {
  const auto outcome = train(striped_data(), {}, small_options(), alone, {}, ticking());
  ASSERT_TRUE(outcome.has_value()) << outcome.error().what;
  ASSERT_EQ(outcome->losses.size(), 60u);
  EXPECT_LT(outcome->losses.back(), 0.2f * outcome->losses.front());
  EXPECT_GT(outcome->accuracy.value(), 0.95);
}

TEST(Train, RepeatsBitByBitAndDependsOnTheSeed) {
  const FashionMnist data = striped_data();
  TrainOptions options = small_options();
  options.epochs = 1;
  const auto first = train(data, {}, options, alone, {}, ticking());
  const auto second = train(data, {}, options, alone, {}, ticking());
  options.seed = 2;
  const auto other = train(data, {}, options, alone, {}, ticking());
  ASSERT_TRUE(first && second && other);
  EXPECT_EQ(first->weights_hash, second->weights_hash);
  EXPECT_EQ(first->losses, second->losses);
  EXPECT_NE(first->weights_hash, other->weights_hash);
}

/// Two ranks as threads; the reduction meets at barriers and adds in rank order.
class TwoRanks {
 public:
  Result<TrainOutcome> run(Rank rank, const FashionMnist& data, const TrainOptions& options) {
    pipeline::BlockingAverager averager(
        rank.value, 2,
        [&](std::span<float> mine) {
          add(rank, mine);
          for (float& value : mine) value /= 2.0f;
          ++means_[rank.value];
          return Result<void>();
        },
        [&](std::span<double> mine) {
          add(rank, mine);
          return Result<void>();
        });
    return train(data, {rank, 2}, options, averager, {}, ticking());
  }
  /// Both at once.
  std::array<Result<TrainOutcome>, 2> run(const FashionMnist& data, const TrainOptions& options) {
    std::array<Result<TrainOutcome>, 2> outcomes;
    std::thread other([&] { outcomes[1] = run(Rank(1), data, options); });
    outcomes[0] = run(Rank(0), data, options);
    other.join();
    return outcomes;
  }
  int means(uint16_t rank) const { return means_[rank]; }

 private:
  template <typename T>
  void add(Rank rank, std::span<T> mine) {
    shares_[rank.value].assign(mine.begin(), mine.end());
    barrier_.arrive_and_wait();
    for (size_t i = 0; i < mine.size(); ++i) {
      mine[i] = static_cast<T>(shares_[0][i]) + static_cast<T>(shares_[1][i]);
    }
    barrier_.arrive_and_wait();
  }

  std::array<std::vector<double>, 2> shares_;
  std::array<int, 2> means_{};
  std::barrier<> barrier_{2};
};

TEST(Train, TwoWorkersKeepEqualWeightsAndFollowOneWorkerWithTheBigBatch) {
  const FashionMnist data = striped_data();
  TrainOptions options = small_options();
  options.epochs = 1;
  const auto big = train(data, {}, options, alone, {}, ticking());
  options.batch /= 2;
  TwoRanks ranks;
  const auto outcomes = ranks.run(data, options);
  ASSERT_TRUE(big && outcomes[0] && outcomes[1]);
  EXPECT_EQ(outcomes[0]->weights_hash, outcomes[1]->weights_hash);
  EXPECT_TRUE(outcomes[0]->accuracy.has_value());
  EXPECT_FALSE(outcomes[1]->accuracy.has_value());
  ASSERT_EQ(outcomes[0]->losses.size(), big->losses.size());
  for (size_t step = 0; step < big->losses.size(); ++step) {
    const float mean = (outcomes[0]->losses[step] + outcomes[1]->losses[step]) / 2.0f;
    EXPECT_NEAR(mean, big->losses[step], 1e-3) << "step " << step;
  }
}

/// What the loop was before there was a pipeline: gradient, update, in one process.
uint64_t hash_of_plain_loop(const FashionMnist& data, const TrainOptions& options) {
  Mlp model({64, options.hidden[0], kClasses}, options.seed);
  std::vector<float> velocity(model.parameters().size());
  BatchSampler sampler({}, data.training.count, static_cast<size_t>(options.batch), options.seed);
  const int per_epoch = static_cast<int>(sampler.steps_per_epoch());
  const int steps = options.epochs * per_epoch;
  const int warmup = static_cast<int>(options.warmup_share * static_cast<float>(steps));
  Batch batch;
  for (int step = 0; step < steps; ++step) {
    if (step % per_epoch == 0) sampler.start_epoch(static_cast<uint64_t>(step / per_epoch));
    gather(data.training, sampler.indices(static_cast<size_t>(step % per_epoch)), batch);
    model.forward_backward(batch);
    const float rate = learning_rate(options.rate, warmup, step, steps);
    for (size_t i = 0; i < velocity.size(); ++i) {
      velocity[i] = options.momentum * velocity[i] + model.gradients()[i];
      model.parameters()[i] -= rate * velocity[i];
    }
  }
  return pipeline::hash_of_bits(model.parameters());
}

TEST(Train, WidthOneIsSynchronousTrainingBitForBit) {
  const FashionMnist data = striped_data();
  const auto outcome = train(data, {}, small_options(), alone, {}, ticking());
  ASSERT_TRUE(outcome.has_value());
  EXPECT_EQ(outcome->weights_hash, hash_of_plain_loop(data, small_options()));
}

TEST(Train, WiderPipelinesKeepRanksEqualAndLearnAsWell) {
  const FashionMnist data = striped_data();
  for (const Optimiser optimiser : {Optimiser::kSgd, Optimiser::kAdamW}) {
    for (const uint32_t width : {2u, 3u}) {
      TrainOptions options = small_options();
      options.batch /= 2;
      options.optimiser = optimiser;
      options.rate = optimiser == Optimiser::kSgd ? 0.05f : 0.005f;
      options.pipeline = {};
      options.pipeline.width = width;
      options.pipeline.hash_every = 5;
      options.pipeline.guard.emplace();
      options.score_epochs = true;
      TwoRanks ranks;
      const auto outcomes = ranks.run(data, options);
      ASSERT_TRUE(outcomes[0] && outcomes[1]) << outcomes[0].error().what;
      EXPECT_EQ(outcomes[0]->weights_hash, outcomes[1]->weights_hash);
      EXPECT_GT(outcomes[0]->accuracy.value(), 0.95);
      EXPECT_EQ(outcomes[0]->epoch_accuracies.size(), 3u);
      EXPECT_EQ(outcomes[0]->epoch_accuracies.back(), outcomes[0]->accuracy.value());
      EXPECT_FALSE(outcomes[0]->fell_back.has_value()) << outcomes[0]->fell_back_reason;
    }
  }
}

TEST(Train, MicroBatchesAreSummedOncePerStep) {
  const FashionMnist data = striped_data();
  TrainOptions options = small_options();
  options.epochs = 1;
  options.pipeline.hash_every = 0;
  const auto whole = train(data, {}, options, alone, {}, ticking());
  options.batch /= 4;
  options.accumulate = 2;
  options.pipeline.width = 2;
  TwoRanks ranks;
  const auto parts = ranks.run(data, options);
  ASSERT_TRUE(whole && parts[0] && parts[1]);
  EXPECT_EQ(parts[0]->losses.size(), whole->losses.size());
  EXPECT_EQ(ranks.means(0), static_cast<int>(whole->losses.size()));
  // The first step starts from the same weights on the same images.
  EXPECT_NEAR((parts[0]->losses[0] + parts[1]->losses[0]) / 2, whole->losses[0], 1e-5);
}

TEST(Train, AWidthBeyondTheRunIsRefused) {
  TrainOptions options = small_options();
  options.epochs = 1;
  options.limit_images = 100;
  options.pipeline.width = 4;
  const auto outcome = train(striped_data(), {}, options, alone, {}, ticking());
  ASSERT_FALSE(outcome.has_value());
  EXPECT_NE(outcome.error().what.find("width of 4 is more than the 3 steps"), std::string::npos);
}

TEST(Train, ReportsProgressBytesAndTimes) {
  std::vector<int> seen;
  TrainOptions options = small_options();
  options.epochs = 1;
  options.limit_images = 100;
  const auto progress = [&](const TrainProgress& at) {
    EXPECT_EQ(at.steps, 3);
    seen.push_back(at.step);
  };
  const auto outcome = train(striped_data(), {}, options, alone, progress, ticking());
  ASSERT_TRUE(outcome.has_value());
  EXPECT_EQ(seen, (std::vector<int>{1, 2, 3}));
  EXPECT_EQ(outcome->gradient_bytes, 4u * (64 * 24 + 24 + 24 * 10 + 10));
  EXPECT_EQ(outcome->reduce_median, 2ms);  // Begin and finish.
  EXPECT_GT(outcome->step_median, outcome->reduce_median);
}

TEST(Train, AFailedReductionEndsItWithTheStepInFront) {
  int calls = 0;
  pipeline::BlockingAverager failing(
      0, 1,
      [&](std::span<float>) -> Result<void> {
        if (++calls < 2) return {};
        return fail(ErrorCode::kAborted, "rank 3 died");
      },
      [](std::span<double>) { return Result<void>(); });
  const auto outcome = train(striped_data(), {}, small_options(), failing, {}, ticking());
  ASSERT_FALSE(outcome.has_value());
  EXPECT_EQ(outcome.error().code, ErrorCode::kAborted);
  EXPECT_EQ(outcome.error().what, "training step 2 of 60: step 2: rank 3 died");
}

TEST(Train, RefusesOptionsThatCannotWorkAndNamesThemAll) {
  TrainOptions options = small_options();
  options.epochs = 0;
  options.momentum = 1.0f;
  const auto outcome = train(striped_data(), {}, options, alone, {}, ticking());
  ASSERT_FALSE(outcome.has_value());
  EXPECT_NE(outcome.error().what.find("epochs must be at least 1, not 0; momentum"),
            std::string::npos)
      << outcome.error().what;
  options = small_options();
  options.batch = 300;
  pipeline::BlockingAverager one_of_four(0, 4, {}, {});
  const auto too_few = train(striped_data(), {Rank(0), 4}, options, one_of_four, {}, ticking());
  ASSERT_FALSE(too_few.has_value());
  EXPECT_NE(too_few.error().what.find("640 images are too few"), std::string::npos);
}

TEST(Train, LearnsFashionMnistFromAFewThousandImages) {
  if (!std::filesystem::exists(kFashionMnistDirectory)) GTEST_SKIP() << "package not installed";
  const auto data = load_fashion_mnist();
  ASSERT_TRUE(data.has_value()) << data.error().what;
  TrainOptions options;
  options.epochs = 1;
  options.hidden = {64};
  options.limit_images = 12'000;
  const auto outcome = train(*data, {}, options, alone, {}, ticking());
  ASSERT_TRUE(outcome.has_value()) << outcome.error().what;
  EXPECT_GT(outcome->accuracy.value(), 0.78);
}

}  // namespace
}  // namespace sumcast::trainer
