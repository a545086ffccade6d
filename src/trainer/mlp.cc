#include "trainer/mlp.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/assert.h"

namespace sumcast::trainer {
namespace {

// Mean and standard deviation of the training pixels over 255, as every tutorial uses them.
constexpr float kPixelMean = 0.2860f;
constexpr float kPixelDeviation = 0.3530f;
/// Images scored at once by accuracy(): large enough for the products, small enough for the cache.
constexpr size_t kScoringBatch = 250;

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

Mlp::Mlp(const std::vector<int>& widths, uint64_t seed, const Gemm& gemm) : layers_(widths, gemm) {
  SUMCAST_ASSERT(widths.back() <= 256);
  parameters_.assign(layers_.parameters(), 0.0f);
  gradients_.assign(layers_.parameters(), 0.0f);
  layers_.draw(seed, parameters_.data());
}

/// Turns the last layer's scores into deltas (softmax minus one-hot, over the batch size) and
/// returns the mean loss. The highest score is taken off first, so that exp cannot overflow.
float Mlp::softmax_backward(std::span<const uint8_t> labels) {
  const std::vector<float>& scores = memory_.outputs.back();
  std::vector<float>& deltas = memory_.slopes.back();
  const auto classes = static_cast<size_t>(layers_.outputs());
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
  SUMCAST_ASSERT(batch.pixels.size() == count * layers_.inputs());
  layers_.forward(parameters_.data(), batch.pixels.data(), count, memory_);
  const float loss = softmax_backward(batch.labels);
  layers_.backward(parameters_.data(), batch.pixels.data(), count, memory_, gradients_.data(),
                   nullptr);
  return loss;
}

double Mlp::accuracy(const ImageSet& set) {
  if (set.count == 0) return 0.0;
  const auto classes = static_cast<size_t>(layers_.outputs());
  Batch batch;
  std::vector<uint32_t> indices;
  size_t right = 0;
  for (size_t first = 0; first < set.count; first += kScoringBatch) {
    indices.resize(std::min(kScoringBatch, set.count - first));
    std::iota(indices.begin(), indices.end(), static_cast<uint32_t>(first));
    gather(set, indices, batch);
    const std::vector<float>& scores =
        layers_.forward(parameters_.data(), batch.pixels.data(), indices.size(), memory_);
    for (size_t row = 0; row < indices.size(); ++row) {
      const float* score = scores.data() + row * classes;
      right += std::max_element(score, score + classes) - score == batch.labels[row];
    }
  }
  return static_cast<double>(right) / static_cast<double>(set.count);
}

}  // namespace sumcast::trainer
