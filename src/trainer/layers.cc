#include "trainer/layers.h"

#include <algorithm>
#include <cmath>

#include "base/assert.h"
#include "base/prng.h"

namespace sumcast::trainer {
namespace {

/// A sample of variance 1: the sum of twelve uniforms less their mean (Irwin-Hall), exact in
/// integers. Box-Muller would call log and cos, whose last bit depends on the machine's libm.
double nearly_normal(Prng& prng) {
  int64_t sum = 0;
  for (int i = 0; i < 12; ++i) sum += prng.next_u32();
  return static_cast<double>(sum - (int64_t{6} << 32)) * 0x1.0p-32;
}

void add_bias(std::span<float> z, std::span<const float> bias, bool relu) {
  for (size_t row = 0; row < z.size(); row += bias.size()) {
    for (size_t i = 0; i < bias.size(); ++i) {
      const float sum = z[row + i] + bias[i];
      z[row + i] = relu && sum < 0.0f ? 0.0f : sum;
    }
  }
}

void sum_rows(std::span<const float> rows, std::span<float> sums) {
  std::fill(sums.begin(), sums.end(), 0.0f);
  for (size_t row = 0; row < rows.size(); row += sums.size()) {
    for (size_t i = 0; i < sums.size(); ++i) sums[i] += rows[row + i];
  }
}

}  // namespace

Layers::Layers(const std::vector<int>& widths, const Gemm& gemm) : gemm_(gemm) {
  SUMCAST_ASSERT(widths.size() >= 2);
  for (size_t i = 0; i + 1 < widths.size(); ++i) {
    SUMCAST_ASSERT(widths[i] > 0 && widths[i + 1] > 0);
    layers_.push_back(Layer{widths[i], widths[i + 1], parameters_});
    parameters_ += layers_.back().count();
  }
}

std::vector<LayerSpan> Layers::spans_in_backward_order() const {
  std::vector<LayerSpan> spans;
  for (auto layer = layers_.rbegin(); layer != layers_.rend(); ++layer) {
    spans.push_back(LayerSpan{layer->offset, layer->count()});
  }
  return spans;
}

void Layers::draw(uint64_t seed, float* parameters) const {
  std::fill_n(parameters, parameters_, 0.0f);
  Prng prng(seed);
  for (const Layer& layer : layers_) {
    const double deviation = std::sqrt(2.0 / layer.inputs);
    for (size_t i = 0; i < layer.weights(); ++i) {
      parameters[layer.offset + i] = static_cast<float>(deviation * nearly_normal(prng));
    }
  }
}

const std::vector<float>& Layers::forward(const float* parameters, const float* input, size_t count,
                                          LayerMemory& memory) const {
  const auto rows = static_cast<int64_t>(count);
  memory.outputs.resize(layers_.size());
  for (size_t l = 0; l < layers_.size(); ++l) {
    const Layer& layer = layers_[l];
    std::vector<float>& out = memory.outputs[l];
    out.resize(count * layer.outputs);
    const float* const weights = parameters + layer.offset;
    gemm_.ab({rows, layer.outputs, layer.inputs}, l == 0 ? input : memory.outputs[l - 1].data(),
             weights, out.data());
    add_bias(out, {weights + layer.weights(), static_cast<size_t>(layer.outputs)},
             l + 1 < layers_.size());
  }
  memory.slopes.resize(layers_.size());
  memory.slopes.back().resize(memory.outputs.back().size());
  return memory.outputs.back();
}

void Layers::backward(const float* parameters, const float* input, size_t count,
                      LayerMemory& memory, float* gradients, float* below) const {
  const auto rows = static_cast<int64_t>(count);
  for (size_t l = layers_.size(); l-- > 0;) {
    const Layer& layer = layers_[l];
    const float* const from = l == 0 ? input : memory.outputs[l - 1].data();
    const std::vector<float>& slopes = memory.slopes[l];
    float* const gradient = gradients + layer.offset;
    gemm_.atb({layer.inputs, layer.outputs, rows}, from, slopes.data(), gradient);
    sum_rows(slopes, {gradient + layer.weights(), static_cast<size_t>(layer.outputs)});
    if (l == 0 && below == nullptr) return;
    if (l > 0) memory.slopes[l - 1].resize(count * layer.inputs);
    float* const to = l == 0 ? below : memory.slopes[l - 1].data();
    gemm_.abt({rows, layer.inputs, layer.outputs}, slopes.data(), parameters + layer.offset, to);
    if (l == 0) return;
    for (size_t i = 0; i < count * layer.inputs; ++i) to[i] = from[i] > 0.0f ? to[i] : 0.0f;
  }
}

}  // namespace sumcast::trainer
