#include "trainer/mlp.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/assert.h"
#include "base/prng.h"

namespace sumcast::trainer {
namespace {

// Mean and standard deviation of the training pixels over 255, as every tutorial uses them.
constexpr float kPixelMean = 0.2860f;
constexpr float kPixelDeviation = 0.3530f;
/// Images scored at once by accuracy(): large enough for the products, small enough for the cache.
constexpr size_t kScoringBatch = 250;

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

void gather(const ImageSet& set, std::span<const uint32_t> indices, Batch& batch) {
  const size_t size = set.pixels_per_image();
  batch.pixels.resize(indices.size() * size);
  batch.labels.resize(indices.size());
  constexpr float kScale = 1.0f / (255.0f * kPixelDeviation);
  constexpr float kShift = kPixelMean / kPixelDeviation;
  for (size_t i = 0; i < indices.size(); ++i) {
    SUMCAST_ASSERT(indices[i] < set.count);
    const uint8_t* from = set.pixels.data() + indices[i] * size;
    float* to = batch.pixels.data() + i * size;
    for (size_t p = 0; p < size; ++p) to[p] = static_cast<float>(from[p]) * kScale - kShift;
    batch.labels[i] = set.labels[indices[i]];
  }
}

Mlp::Mlp(std::vector<int> widths, uint64_t seed, const Gemm& gemm) : gemm_(gemm) {
  SUMCAST_ASSERT(widths.size() >= 2);
  SUMCAST_ASSERT(widths.back() <= 256);
  size_t offset = 0;
  for (size_t i = 0; i + 1 < widths.size(); ++i) {
    SUMCAST_ASSERT(widths[i] > 0 && widths[i + 1] > 0);
    layers_.push_back(Layer{widths[i], widths[i + 1], offset});
    offset += layers_.back().count();
  }
  parameters_.assign(offset, 0.0f);
  gradients_.assign(offset, 0.0f);
  outputs_.resize(layers_.size());
  deltas_.resize(layers_.size());
  Prng prng(seed);
  for (const Layer& layer : layers_) {
    const double deviation = std::sqrt(2.0 / layer.inputs);
    for (size_t i = 0; i < layer.weights(); ++i) {
      parameters_[layer.offset + i] = static_cast<float>(deviation * nearly_normal(prng));
    }
  }
}

std::vector<LayerSpan> Mlp::spans_in_backward_order() const {
  std::vector<LayerSpan> spans;
  for (auto layer = layers_.rbegin(); layer != layers_.rend(); ++layer) {
    spans.push_back(LayerSpan{layer->offset, layer->count()});
  }
  return spans;
}

const float* Mlp::input_of(size_t layer, const float* pixels) const {
  return layer == 0 ? pixels : outputs_[layer - 1].data();
}

void Mlp::forward(const float* pixels, size_t count) {
  const auto rows = static_cast<int64_t>(count);
  for (size_t l = 0; l < layers_.size(); ++l) {
    const Layer& layer = layers_[l];
    outputs_[l].resize(count * layer.outputs);
    const float* weights = parameters_.data() + layer.offset;
    gemm_.ab({rows, layer.outputs, layer.inputs}, input_of(l, pixels), weights, outputs_[l].data());
    add_bias(outputs_[l], {weights + layer.weights(), static_cast<size_t>(layer.outputs)},
             l + 1 < layers_.size());
  }
}

/// Turns the last layer's scores into deltas (softmax minus one-hot, over the batch size) and
/// returns the mean loss. The highest score is taken off first, so that exp cannot overflow.
float Mlp::softmax_backward(std::span<const uint8_t> labels) {
  const std::vector<float>& scores = outputs_.back();
  std::vector<float>& deltas = deltas_.back();
  deltas.resize(scores.size());
  const auto classes = static_cast<size_t>(layers_.back().outputs);
  const float per_image = 1.0f / static_cast<float>(labels.size());
  double loss = 0.0;
  for (size_t row = 0; row < labels.size(); ++row) {
    const std::span<const float> score(scores.data() + row * classes, classes);
    const std::span<float> delta(deltas.data() + row * classes, classes);
    SUMCAST_ASSERT(labels[row] < classes);
    const float highest = *std::max_element(score.begin(), score.end());
    float sum = 0.0f;
    for (size_t i = 0; i < classes; ++i) sum += delta[i] = std::exp(score[i] - highest);
    loss += std::log(sum) - (score[labels[row]] - highest);
    for (size_t i = 0; i < classes; ++i) delta[i] *= per_image / sum;
    delta[labels[row]] -= per_image;
  }
  return static_cast<float>(loss / static_cast<double>(labels.size()));
}

float Mlp::forward_backward(const Batch& batch) {
  const size_t count = batch.labels.size();
  SUMCAST_ASSERT(count > 0);
  SUMCAST_ASSERT(batch.pixels.size() == count * layers_.front().inputs);
  forward(batch.pixels.data(), count);
  const float loss = softmax_backward(batch.labels);
  const auto rows = static_cast<int64_t>(count);
  for (size_t l = layers_.size(); l-- > 0;) {
    const Layer& layer = layers_[l];
    const float* input = input_of(l, batch.pixels.data());
    float* gradient = gradients_.data() + layer.offset;
    gemm_.atb({layer.inputs, layer.outputs, rows}, input, deltas_[l].data(), gradient);
    sum_rows(deltas_[l], {gradient + layer.weights(), static_cast<size_t>(layer.outputs)});
    if (l == 0) break;
    std::vector<float>& below = deltas_[l - 1];
    below.resize(count * layer.inputs);
    gemm_.abt({rows, layer.inputs, layer.outputs}, deltas_[l].data(),
              parameters_.data() + layer.offset, below.data());
    for (size_t i = 0; i < below.size(); ++i) below[i] = input[i] > 0.0f ? below[i] : 0.0f;
  }
  return loss;
}

double Mlp::accuracy(const ImageSet& set) {
  if (set.count == 0) return 0.0;
  const auto classes = static_cast<size_t>(layers_.back().outputs);
  Batch batch;
  std::vector<uint32_t> indices;
  size_t right = 0;
  for (size_t first = 0; first < set.count; first += kScoringBatch) {
    indices.resize(std::min(kScoringBatch, set.count - first));
    std::iota(indices.begin(), indices.end(), static_cast<uint32_t>(first));
    gather(set, indices, batch);
    forward(batch.pixels.data(), indices.size());
    for (size_t row = 0; row < indices.size(); ++row) {
      const float* score = outputs_.back().data() + row * classes;
      right += std::max_element(score, score + classes) - score == batch.labels[row];
    }
  }
  return static_cast<double>(right) / static_cast<double>(set.count);
}

}  // namespace sumcast::trainer
