#include "trainer/async_train.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/prng.h"
#include "pipeline/weights_hash.h"
#include "trainer/sgd.h"
#include "trainer/train_parts.h"

namespace sumcast::trainer {
namespace {

/// Images in which a bright row tells the class.
ImageSet bright_rows(size_t count, uint64_t seed) {
  Prng prng(seed);
  ImageSet set{count, 10, 4, std::vector<uint8_t>(count * 40), std::vector<uint8_t>(count)};
  for (size_t i = 0; i < count; ++i) {
    set.labels[i] = static_cast<uint8_t>(prng.below(kClasses));
    for (size_t p = 0; p < 40; ++p) {
      set.pixels[i * 40 + p] =
          static_cast<uint8_t>(prng.below(100) + (p / 4 == set.labels[i] ? 120 : 0));
    }
  }
  return set;
}

TrainOptions small() {
  TrainOptions options;
  options.batch = 16;
  options.hidden = {24};
  options.rate = 0.1f;
  options.score_epochs = true;
  return options;
}

FashionMnist data() { return {bright_rows(640, 1), bright_rows(200, 2)}; }

TEST(AsyncTrain, AloneAtTheServerTrainingIsSynchronous) {
  pipeline::BlockingAverager nobody;
  const auto alone = train(data(), {}, small(), nobody, {}, [] { return Instant{1}; });
  const auto turns = train_by_turns(data(), 1, small());
  ASSERT_TRUE(alone.has_value() && turns.has_value());
  EXPECT_EQ(turns->weights_hash, alone->weights_hash);
  EXPECT_EQ(turns->losses, alone->losses);
  EXPECT_EQ(turns->epoch_accuracies, alone->epoch_accuracies);
}

TEST(AsyncTrain, EveryWorkersImagesAreLearntFromAndBitsRepeat) {
  const auto one = train_by_turns(data(), 4, small()), other = train_by_turns(data(), 4, small());
  ASSERT_TRUE(one.has_value() && other.has_value());
  EXPECT_EQ(one->weights_hash, other->weights_hash);
  EXPECT_EQ(one->losses.size(), 30u);  // 640 / (4 * 16) turns an epoch.
  EXPECT_GT(one->accuracy.value(), 0.9);
  EXPECT_EQ(one->epoch_accuracies.size(), 3u);
  EXPECT_EQ(one->epoch_accuracies.back(), one->accuracy.value());
}

TEST(AsyncTrain, AGradientIsOfTheWeightsThatItsWorkerFetchedAfterItsOwnLastTurn) {
  TrainOptions options = small();
  options.epochs = 1;
  options.momentum = 0.0f;
  const auto turns = train_by_turns(data(), 2, options);
  ASSERT_TRUE(turns.has_value());

  // By hand: plain descent, and each worker's copy as old as its own last turn.
  const FashionMnist images = data();
  Mlp server = make_model(images, options);
  Mlp copies[] = {make_model(images, options), make_model(images, options)};
  const int updates = 2 * 640 / (2 * 16);
  const int warmup = static_cast<int>(options.warmup_share * static_cast<float>(updates));
  Batch batch;
  for (int update = 0; update < updates; ++update) {
    Mlp& mine = copies[update % 2];
    BatchSampler sampler({Rank(static_cast<uint16_t>(update % 2)), 2}, 640, 16, options.seed);
    sampler.start_epoch(0);
    gather(images.training, sampler.indices(static_cast<size_t>(update / 2)), batch);
    mine.forward_backward(batch);
    const float rate = 0.5f * learning_rate(options.rate, warmup, update, updates);
    for (size_t i = 0; i < server.parameters().size(); ++i) {
      server.parameters()[i] -= rate * mine.gradients()[i];
    }
    std::ranges::copy(server.parameters(), mine.parameters().begin());
  }
  EXPECT_EQ(turns->weights_hash, pipeline::hash_of_bits(server.parameters()));
}

TEST(AsyncTrain, WhatCannotBeTrainedIsRefused) {
  TrainOptions options = small();
  options.accumulate = 2;
  EXPECT_FALSE(train_by_turns(data(), 2, options).has_value());
  options = small();
  options.batch = 1000;
  EXPECT_FALSE(train_by_turns(data(), 2, options).has_value());
}

}  // namespace
}  // namespace sumcast::trainer
