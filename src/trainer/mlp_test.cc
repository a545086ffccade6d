#include "trainer/mlp.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/prng.h"
#include "pipeline/weights_hash.h"

namespace sumcast::trainer {
namespace {

using pipeline::hash_of_bits;

Batch random_batch(size_t count, size_t pixels, int classes, uint64_t seed) {
  Prng prng(seed);
  Batch batch;
  for (size_t i = 0; i < count * pixels; ++i) {
    batch.pixels.push_back(static_cast<float>(2.0 * prng.unit() - 1.0));
  }
  for (size_t i = 0; i < count; ++i) {
    batch.labels.push_back(static_cast<uint8_t>(prng.below(static_cast<uint64_t>(classes))));
  }
  return batch;
}

/// Images `first` to `last` - 1 of a batch.
Batch part_of(const Batch& whole, size_t first, size_t last) {
  const size_t pixels = whole.pixels.size() / whole.labels.size();
  const auto at = [](const auto& from, size_t index) {
    return from.begin() + static_cast<ptrdiff_t>(index);
  };
  return Batch{{at(whole.pixels, first * pixels), at(whole.pixels, last * pixels)},
               {at(whole.labels, first), at(whole.labels, last)}};
}

TEST(Mlp, GradientAgreesWithFiniteDifferences) {
  Mlp model({7, 6, 5, 4}, 11);
  const Batch batch = random_batch(9, 7, 4, 12);
  (void)model.forward_backward(batch);
  const std::vector<float> gradient(model.gradients().begin(), model.gradients().end());
  // Small, since the loss has a kink wherever a ReLU's input passes zero; the loss is a float, so
  // the quotient is good to about 1e-7 / kStep. (Kinks within the step show as errors near 1e-2
  // that vanish when it shrinks; these seeds have none.)
  constexpr float kStep = 1e-3f;
  for (size_t i = 0; i < gradient.size(); ++i) {
    const float weight = model.parameters()[i];
    model.parameters()[i] = weight + kStep;
    const double above = model.forward_backward(batch);
    model.parameters()[i] = weight - kStep;
    const double below = model.forward_backward(batch);
    model.parameters()[i] = weight;
    ASSERT_NEAR(gradient[i], (above - below) / (2.0 * kStep), 3e-4) << "parameter " << i;
  }
  // A gradient of zeros would pass a tolerance this wide.
  EXPECT_GT(std::abs(*std::max_element(gradient.begin(), gradient.end())), 0.05f);
}

TEST(Mlp, StartsFromTheLossOfGuessingWhenScoresAreEqual) {
  Mlp model({7, 6, 10}, 1);
  std::fill(model.parameters().begin(), model.parameters().end(), 0.0f);
  EXPECT_NEAR(model.forward_backward(random_batch(5, 7, 10, 2)), std::log(10.0), 1e-6);
}

TEST(Mlp, SurvivesScoresThatExpWouldOverflow) {
  Mlp model({2, 3}, 1);
  std::fill(model.parameters().begin(), model.parameters().end(), 1000.0f);
  model.parameters()[0] = -1000.0f;
  EXPECT_TRUE(std::isfinite(model.forward_backward(random_batch(4, 2, 3, 3))));
  for (const float element : model.gradients()) EXPECT_TRUE(std::isfinite(element));
}

TEST(Mlp, AverageOverTwoWorkersIsTheGradientOfTheBigBatch) {
  Mlp model({20, 16, 10}, 5);
  const Batch whole = random_batch(32, 20, 10, 6);
  const float loss = model.forward_backward(whole);
  const std::vector<float> expected(model.gradients().begin(), model.gradients().end());
  const float loss_first = model.forward_backward(part_of(whole, 0, 16));
  std::vector<float> average(model.gradients().begin(), model.gradients().end());
  const float loss_second = model.forward_backward(part_of(whole, 16, 32));
  for (size_t i = 0; i < average.size(); ++i) {
    average[i] = (average[i] + model.gradients()[i]) / 2.0f;
    ASSERT_NEAR(average[i], expected[i], 1e-6) << i;
  }
  EXPECT_NEAR((loss_first + loss_second) / 2.0f, loss, 1e-6);
}

TEST(Mlp, SameInputsGiveTheSameBits) {
  Mlp a({20, 16, 10}, 5), b({20, 16, 10}, 5);
  const Batch batch = random_batch(32, 20, 10, 6);
  (void)b.forward_backward(random_batch(7, 20, 10, 7));  // Leftovers must not matter.
  EXPECT_EQ(a.forward_backward(batch), b.forward_backward(batch));
  EXPECT_EQ(hash_of_bits(a.gradients()), hash_of_bits(b.gradients()));
}

TEST(Mlp, InitialWeightsAreThoseOfHeAndTheSameOnEveryMachine) {
  const Mlp model({784, 512, 512, 10}, 1);
  ASSERT_EQ(model.parameters().size(), 669'706u);
  EXPECT_EQ(hash_of_bits(model.parameters()), 0x381ce6b59de72f51u);
  double sum = 0.0, squares = 0.0;
  constexpr size_t kWeights = 784 * 512;
  for (size_t i = 0; i < kWeights; ++i) {
    sum += model.parameters()[i];
    squares += double{model.parameters()[i]} * model.parameters()[i];
  }
  EXPECT_NEAR(sum / kWeights, 0.0, 5e-4);
  EXPECT_NEAR(squares / kWeights * 784 / 2, 1.0, 0.01);
  EXPECT_EQ(model.parameters()[kWeights], 0.0f);  // The first bias.
}

TEST(Mlp, SpansCoverTheBufferFromTheLastLayerToTheFirst) {
  const Mlp model({7, 6, 5, 4}, 1);
  const auto spans = model.spans_in_backward_order();
  ASSERT_EQ(spans.size(), 3u);
  size_t end = model.parameters().size();
  for (const LayerSpan& span : spans) {
    EXPECT_EQ(span.offset + span.count, end);
    end = span.offset;
  }
  EXPECT_EQ(end, 0u);
}

TEST(Mlp, AccuracyCountsTheHighestScore) {
  // One layer, two pixels, weights such that class 0 likes the first pixel and class 1 the second.
  Mlp model({2, 2}, 1);
  const std::vector<float> weights = {1, 0, 0, 1, 0, 0};
  std::copy(weights.begin(), weights.end(), model.parameters().begin());
  const ImageSet set{4, 1, 2, {255, 0, 0, 255, 255, 0, 0, 255}, {0, 1, 0, 0}};
  EXPECT_DOUBLE_EQ(model.accuracy(set), 0.75);
}

TEST(Gather, NormalisesThePixelsOfTheImagesNamed) {
  const ImageSet set{3, 1, 2, {0, 255, 10, 20, 30, 40}, {7, 8, 9}};
  Batch batch;
  gather(set, std::vector<uint32_t>{2, 0}, batch);
  EXPECT_EQ(batch.labels, (std::vector<uint8_t>{9, 7}));
  ASSERT_EQ(batch.pixels.size(), 4u);
  EXPECT_NEAR(batch.pixels[0], (30 / 255.0 - 0.2860) / 0.3530, 1e-6);
  EXPECT_NEAR(batch.pixels[3], (255 / 255.0 - 0.2860) / 0.3530, 1e-6);
}

}  // namespace
}  // namespace sumcast::trainer
