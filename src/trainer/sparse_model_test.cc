#include "trainer/sparse_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/prng.h"
#include "trainer/naive_bayes.h"

namespace sumcast::trainer {
namespace {

using ::testing::HasSubstr;

SparseBatch some_batch(uint32_t classes) {
  Prng random(3);
  SparseBatch batch;
  for (int i = 0; i < 6; ++i) {
    dataset::Sample sample;
    sample.label = static_cast<float>(random.below(classes));
    for (uint64_t key = 1; key < 9; ++key) {
      if (!random.chance(0.5)) continue;
      const auto field = static_cast<uint32_t>(key % 3);
      sample.features.push_back({key, static_cast<float>(random.unit()), field});
    }
    batch.add(sample);
  }
  return batch;
}

TEST(SparseBatch, KeysAreMergedAndEverySampleHasTheBias) {
  SparseBatch batch;
  batch.add({1, 0, {{7, 2.0f}, {9, 1.0f}}});
  batch.add({0, 0, {{9, 3.0f}}});
  EXPECT_EQ(batch.keys, (std::vector<uint64_t>{kBiasKey, 7, 9}));
  ASSERT_EQ(batch.sample(1).size(), 2u);
  EXPECT_EQ(batch.sample(1)[0].key, 0u);
  EXPECT_EQ(batch.sample(1)[1].key, 2u);
  EXPECT_EQ(batch.sample(1)[1].value, 3.0f);
}

class Gradients : public ::testing::TestWithParam<const char*> {};

/// Against differences of the loss, in every lane of every row and in every dense parameter.
TEST_P(Gradients, AreTheSlopesOfTheLoss) {
  const uint32_t classes = std::string_view(GetParam()) == "softmax" ? 4 : 2;
  const ModelShape shape = {.classes = classes, .factors = 3, .fields = 3, .hidden = {5, 4}};
  const auto model = make_sparse_model(GetParam(), shape);
  ASSERT_TRUE(model.has_value()) << model.error().what;
  const SparseBatch batch = some_batch(classes);
  const size_t width = (*model)->width();
  Prng random(5);
  std::vector<float> weights(batch.keys.size() * width), gradients(weights.size());
  for (float& w : weights) w = static_cast<float>(random.unit() - 0.5);
  std::vector<const float*> rows;
  for (size_t i = 0; i < batch.keys.size(); ++i) rows.push_back(weights.data() + i * width);
  const size_t dense = (*model)->dense();
  std::vector<float> parameters(dense), dense_gradients(dense), ignored(weights.size() + dense);
  (*model)->draw_dense(11, parameters.data());
  const ModelView view = {rows, parameters.data()};
  (void)(*model)->learn(batch, view, 1.0f, {gradients.data(), dense_gradients.data()});
  const auto loss = [&] {
    return (*model)->learn(batch, view, 1.0f, {ignored.data(), ignored.data() + weights.size()});
  };
  const auto expect_slope = [&](float& parameter, float gradient) {
    constexpr float kStep = 1e-3f;
    const float kept = parameter;
    parameter = kept + kStep;
    const double above = loss();
    parameter = kept - kStep;
    const double below = loss();
    parameter = kept;
    ASSERT_NEAR(gradient, (above - below) / (2 * kStep), 4e-3);
  };
  for (size_t i = 0; i < weights.size(); ++i) {
    SCOPED_TRACE(i);
    expect_slope(weights[i], gradients[i]);
  }
  for (size_t i = 0; i < dense; ++i) {
    SCOPED_TRACE(i);
    expect_slope(parameters[i], dense_gradients[i]);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Gradients, ::testing::Values("lr", "fm", "deepfm", "softmax"));

TEST(SparseModel, UnknownNamesAndImpossibleShapesAreNamed) {
  const auto refusal = [](const char* name, const ModelShape& shape) {
    const auto model = make_sparse_model(name, shape);
    return model ? std::string("made") : model.error().what;
  };
  EXPECT_THAT(refusal("svm", {}), HasSubstr("lr, fm, deepfm, softmax"));
  EXPECT_THAT(refusal("softmax", {.classes = 1}), HasSubstr("1 label"));
  EXPECT_THAT(refusal("fm", {.factors = 0}), HasSubstr("one factor"));
  EXPECT_THAT(refusal("deepfm", {.fields = 65}), HasSubstr("65 fields"));
  EXPECT_THAT(refusal("deepfm", {.fields = 3, .hidden = {8, 0}}), HasSubstr("hidden layer of 0"));
}

TEST(DeepFm, AWorkerWithoutSamplesHasGradientsOfZero) {
  const auto model = make_sparse_model("deepfm", {.fields = 2, .hidden = {4}});
  ASSERT_TRUE(model.has_value());
  std::vector<float> parameters((*model)->dense(), 0.5f), gradients(parameters.size(), 7.0f);
  EXPECT_EQ(
      (*model)->learn(SparseBatch(), {{}, parameters.data()}, 1.0f, {nullptr, gradients.data()}),
      0.0);
  EXPECT_THAT(gradients, ::testing::Each(0.0f));
}

TEST(Metrics, AreWhatTheirDefinitionsSay) {
  const std::vector<float> labels = {1, 0, 1, 0}, p = {0.9f, 0.1f, 0.4f, 0.4f};
  EXPECT_NEAR(area_under_curve(labels, p), (2 + 1.5) / 4, 1e-9);
  EXPECT_EQ(area_under_curve(std::vector<float>{1, 1}, std::vector<float>{0.1f, 0.2f}), 0.5);
  EXPECT_NEAR(top_1(labels, p, 1), 0.75, 1e-9);
  EXPECT_NEAR(log_loss(labels, p, 1), -(2 * std::log(0.9) + std::log(0.4) + std::log(0.6)) / 4,
              1e-6);
  const std::vector<float> classes = {2, 0}, q = {0.1f, 0.2f, 0.7f, 0.3f, 0.5f, 0.2f};
  EXPECT_NEAR(top_1(classes, q, 3), 0.5, 1e-9);
  EXPECT_NEAR(log_loss(classes, q, 3), -(std::log(0.7) + std::log(0.3)) / 2, 1e-6);
}

TEST(NaiveBayes, FindsTheClassWhoseWordsASampleHas) {
  std::vector<dataset::Sample> train, test;
  Prng random(8);
  for (uint64_t i = 0; i < 900; ++i) {
    dataset::Sample sample;
    sample.label = static_cast<float>(i % 3);
    sample.group = i;
    for (int word = 0; word < 5; ++word) {
      const uint64_t own = 100 * (i % 3) + random.below(20), common = 1000 + random.below(20);
      sample.features.push_back({random.chance(0.7) ? own : common, 1.0f});
    }
    (i < 800 ? train : test).push_back(sample);
  }
  const NaiveBayesResult result = measure_naive_bayes(train, test, 3);
  EXPECT_GT(result.top_1, 0.95);
}

}  // namespace
}  // namespace sumcast::trainer
