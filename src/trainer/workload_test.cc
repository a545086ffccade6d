#include "trainer/workload.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace sumcast::trainer {
namespace {

TEST(Workload, BackwardFillsEachLayersOwnGradientsWithTheProduct) {
  Workload work({{3, 2, 4}, {5, 3, 2}}, 1);
  EXPECT_EQ(work.parameters().size(), 6u + 15u);
  work.forward(0);
  work.backward(1);
  const auto nonzero = [](std::span<const float> values) {
    return std::count_if(values.begin(), values.end(), [](float v) { return v != 0; });
  };
  EXPECT_EQ(nonzero(work.gradients().first(6)), 0);
  EXPECT_EQ(nonzero(work.gradients().subspan(6)), 15);
  work.backward(0);
  EXPECT_EQ(nonzero(work.gradients()), 21);
}

TEST(Workload, TilesOfALayerAddUp) {
  const auto gradients = [](int tiles) {
    Workload work({{3, 2, tiles * Workload::kTileRows}, {5, 3, 2}}, 1);
    work.backward(0);
    return std::vector<float>(work.gradients().begin(), work.gradients().begin() + 6);
  };
  // All tiles are one, and each row counts for a share of all rows.
  EXPECT_EQ(gradients(2), gradients(1));
  EXPECT_EQ(gradients(4), gradients(1));
  EXPECT_NE(gradients(1), std::vector<float>(6, 0.0f));
}

TEST(Workload, ModelsHaveTheProportionsOfTheirOriginals) {
  const auto facts = [](std::string_view name) {
    const auto layers = workload_layers(name).value();
    double parameters = 0, dense = 0, arithmetic = 0, first_half = 0, dense_arithmetic = 0;
    for (size_t i = 0; i < layers.size(); ++i) {
      const double weights = double(layers[i].inputs) * layers[i].outputs;
      parameters += weights;
      arithmetic += weights * layers[i].rows;
      if (i + 3 >= layers.size()) dense += weights, dense_arithmetic += weights * layers[i].rows;
      if (i < layers.size() / 2) first_half += weights;
    }
    return std::array<double, 5>{parameters, dense / parameters, arithmetic,
                                 first_half / parameters, dense_arithmetic / arithmetic};
  };
  EXPECT_EQ(facts("mlp")[0], 784 * 512 + 512 * 512 + 5120);
  EXPECT_GT(facts("vgg16")[1], 0.9);     // Dense layers hold most parameters ...
  EXPECT_LT(facts("vgg16")[4], 0.3);     // ... and have little of the arithmetic,
  EXPECT_LT(facts("resnet18")[3], 0.1);  // ... as the last stages hold most here.
  for (const char* name : {"mlp", "resnet18", "vgg16", "transformer"}) {
    EXPECT_GT(facts(name)[0], 5e5) << name;
    EXPECT_GT(facts(name)[2], 400 * facts(name)[0]) << name << ": each is used often in a step";
  }
  EXPECT_FALSE(workload_layers("gpt").has_value());
}

}  // namespace
}  // namespace sumcast::trainer
