#include "trainer/deep_fm.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/assert.h"
#include "trainer/factors.h"
#include "trainer/layers.h"

namespace sumcast::trainer {
namespace {

constexpr int kHiddenMax = 4096;

class DeepFm final : public SparseModel {
 public:
  DeepFm(uint32_t factors, const std::vector<int>& widths) : factors_(factors), layers_(widths) {}

  uint32_t width() const override { return 1 + factors_; }
  uint32_t scores() const override { return 1; }
  float init_scale() const override { return kFactorScale; }
  size_t dense() const override { return layers_.parameters(); }
  void draw_dense(uint64_t seed, float* parameters) const override {
    layers_.draw(seed, parameters);
  }

  double learn(const SparseBatch& batch, const ModelView& model, float share,
               const GradientView& gradients) const override {
    std::fill_n(gradients.rows, batch.keys.size() * width(), 0.0f);
    if (batch.size() == 0) {
      std::fill_n(gradients.dense, dense(), 0.0f);
      return 0;
    }
    LayerMemory memory;
    const std::vector<float> input = embed(batch, model.rows);
    const std::vector<float>& deep =
        layers_.forward(model.dense, input.data(), batch.size(), memory);
    std::vector<float>& slopes = memory.slopes.back();
    double loss = 0;
    for (size_t i = 0; i < batch.size(); ++i) {
      const float wide = factor_score(batch.sample(i), model.rows, factors_);
      const Guess guess = judge(wide + deep[i], batch.labels[i]);
      loss += guess.loss;
      slopes[i] = guess.slope * share;
      add_factor_gradient(batch.sample(i), model.rows, factors_, slopes[i], gradients.rows);
    }
    std::vector<float> below(input.size());
    layers_.backward(model.dense, input.data(), batch.size(), memory, gradients.dense,
                     below.data());
    add_embedding_gradients(batch, below, gradients.rows);
    return loss;
  }

  void predict(const SparseBatch& batch, const ModelView& model, float* out) const override {
    if (batch.size() == 0) return;
    LayerMemory memory;
    const std::vector<float> input = embed(batch, model.rows);
    const std::vector<float>& deep =
        layers_.forward(model.dense, input.data(), batch.size(), memory);
    for (size_t i = 0; i < batch.size(); ++i) {
      out[i] = sigmoid(factor_score(batch.sample(i), model.rows, factors_) + deep[i]);
    }
  }

 private:
  /// The layers' input: f32[batch][fields][factors].
  std::vector<float> embed(const SparseBatch& batch, Rows rows) const {
    const auto inputs = static_cast<size_t>(layers_.inputs());
    std::vector<float> input(batch.size() * inputs, 0.0f);
    for (size_t i = 0; i < batch.size(); ++i) {
      for (const SparseEntry& entry : batch.sample(i).subspan(1)) {  // Behind the bias.
        SUMCAST_DCHECK(size_t{entry.field} * factors_ < inputs);
        float* const at = input.data() + i * inputs + size_t{entry.field} * factors_;
        for (uint32_t f = 0; f < factors_; ++f) at[f] += rows[entry.key][1 + f] * entry.value;
      }
    }
    return input;
  }

  /// @param below  the loss's derivative by what embed() made.
  void add_embedding_gradients(const SparseBatch& batch, const std::vector<float>& below,
                               float* gradients) const {
    const auto inputs = static_cast<size_t>(layers_.inputs());
    for (size_t i = 0; i < batch.size(); ++i) {
      for (const SparseEntry& entry : batch.sample(i).subspan(1)) {
        const float* const at = below.data() + i * inputs + size_t{entry.field} * factors_;
        float* const gradient = gradients + size_t{entry.key} * width() + 1;
        for (uint32_t f = 0; f < factors_; ++f) gradient[f] += at[f] * entry.value;
      }
    }
  }

  uint32_t factors_;
  Layers layers_;
};

}  // namespace

Result<std::unique_ptr<SparseModel>> make_deep_fm(const ModelShape& shape) {
  if (shape.fields == 0 || shape.fields > kFieldsMax) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("deepfm: {} fields; 1 to {} are possible", shape.fields, kFieldsMax));
  }
  std::vector<int> widths = {static_cast<int>(shape.fields * shape.factors)};
  for (const int outputs : shape.hidden) {
    if (outputs < 1 || outputs > kHiddenMax) {
      return fail(
          ErrorCode::kInvalidArgument,
          fmt::format("deepfm: a hidden layer of {}; 1 to {} are possible", outputs, kHiddenMax));
    }
    widths.push_back(outputs);
  }
  widths.push_back(1);
  return std::make_unique<DeepFm>(shape.factors, widths);
}

}  // namespace sumcast::trainer
