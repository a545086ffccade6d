#include "trainer/skip_gram.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

namespace sumcast::trainer {
namespace {

dataset::Vocabulary some_words() {
  dataset::Vocabulary words;
  for (const char* text : {"red green blue red", "green red", "sun moon red", "moon"}) {
    words.count(text);
  }
  words.finish(1);
  return words;
}

TEST(SkipGram, GradientsAreTheSlopesOfTheLoss) {
  const dataset::Vocabulary words = some_words();
  const SkipGram model(words, {.width = 3, .window = 2, .negatives = 2, .thin = 0});
  SkipGramBatch batch;
  Prng random(4);
  const std::vector<dataset::WordId> text = {0, 1, 2, 0, 3};
  model.add_text(text, random, batch);
  std::vector<float> weights(batch.keys.size() * 3), gradients(weights.size());
  for (float& weight : weights) weight = static_cast<float>(random.unit() - 0.5);
  std::vector<const float*> rows;
  for (size_t i = 0; i < batch.keys.size(); ++i) rows.push_back(weights.data() + i * 3);
  (void)model.learn(batch, rows, 1.0f, gradients.data());
  for (size_t i = 0; i < weights.size(); ++i) {
    constexpr float kStep = 1e-3f;
    const float kept = weights[i];
    weights[i] = kept + kStep;
    const double above = model.measure(batch, rows).loss;
    weights[i] = kept - kStep;
    const double below = model.measure(batch, rows).loss;
    weights[i] = kept;
    ASSERT_NEAR(gradients[i], (above - below) / (2 * kStep), 4e-3) << "lane " << i;
  }
}

TEST(SkipGram, EveryRealPairIsNearAndFollowedByItsNegatives) {
  const dataset::Vocabulary words = some_words();
  const SkipGram model(words, {.width = 1, .window = 1, .negatives = 3, .thin = 0});
  SkipGramBatch batch;
  Prng random(9);
  const std::vector<dataset::WordId> text = {0, 1, 2};
  model.add_text(text, random, batch);
  ASSERT_EQ(batch.pairs.size(), 4u * 4);  // 0-1, 1-0, 1-2, 2-1.
  const dataset::WordId near[][2] = {{0, 1}, {1, 0}, {1, 2}, {2, 1}};
  for (size_t i = 0; i < 4; ++i) {
    const WordPair& real = batch.pairs[4 * i];
    EXPECT_TRUE(real.is_real);
    EXPECT_EQ(batch.keys[real.in], model.input_key(near[i][0]));
    EXPECT_EQ(batch.keys[real.out], model.output_key(near[i][1]));
    for (size_t j = 1; j < 4; ++j) {
      EXPECT_FALSE(batch.pairs[4 * i + j].is_real);
      EXPECT_EQ(batch.pairs[4 * i + j].in, real.in);
      EXPECT_NE(batch.pairs[4 * i + j].out, real.out);
    }
  }
  EXPECT_EQ(std::set(batch.keys.begin(), batch.keys.end()).size(), batch.keys.size());
}

TEST(SkipGram, NegativesFollowTheCountsToThePowerOfThreeQuarters) {
  dataset::Vocabulary words;
  for (int i = 0; i < 16; ++i) words.count("often");
  words.count("seldom other");
  words.finish(1);
  const SkipGram model(words, {});
  Prng random(2);
  const dataset::WordId other = words.find("other");
  int often = 0;
  constexpr int kDraws = 9000;
  for (int i = 0; i < kDraws; ++i) often += model.draw_negative(other, random) == 0;
  EXPECT_NEAR(often, kDraws * 8.0 / 9.0, 150);  // 16^.75 = 8 against 1.
}

TEST(SkipGram, FrequentWordsAreThinnedOut) {
  dataset::Vocabulary words;
  for (int i = 0; i < 1000; ++i) words.count("the");
  words.count("rare");
  words.finish(1);
  const SkipGram model(words, {.window = 1, .negatives = 1, .thin = 1e-3});
  SkipGramBatch batch;
  Prng random(3);
  const std::vector<dataset::WordId> text(40, 0);
  for (int i = 0; i < 100; ++i) model.add_text(text, random, batch);
  // Of 4,000 occurrences about sqrt(.001) + .001 = 3.3 % stay, each with two neighbours.
  EXPECT_LT(batch.pairs.size(), 2u * 2 * 400);
  EXPECT_GT(batch.pairs.size(), 2u * 50);
}

}  // namespace
}  // namespace sumcast::trainer
