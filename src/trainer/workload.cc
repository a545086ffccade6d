#include "trainer/workload.h"

#include <algorithm>

#include "base/assert.h"
#include "base/prng.h"

namespace sumcast::trainer {
namespace {

// Batches are large: enough computing per byte that moving the bytes, on the same cores, is a small
// part of it, as it is where the originals are trained (a parameter of theirs is used some thousand
// times in a batch of 32). With less, links that are to take as long as computing are so fast that
// the cores decide.

std::vector<DenseShape> mlp() {
  constexpr int kBatch = 1536;
  return {{784, 512, kBatch}, {512, 512, kBatch}, {512, 10, kBatch}};
}

/// The same in small, for networks whose latency is longer than a step: 536 kB of gradients.
std::vector<DenseShape> short_mlp() {
  constexpr int kBatch = 1280;
  return {{256, 256, kBatch}, {256, 256, kBatch}, {256, 10, kBatch}};
}

/// Four stages of four 3x3 convolutions, channels doubling where positions fall to a quarter: most
/// arithmetic per parameter at the bottom, most parameters at the top.
std::vector<DenseShape> resnet18() {
  constexpr int kBatch = 128;
  int channels = 16, positions = 256 * kBatch;
  std::vector<DenseShape> layers = {{27, channels, positions}};
  for (int stage = 0; stage < 4; ++stage) {
    for (int i = 0; i < 4; ++i) layers.push_back({9 * channels, channels, positions});
    channels *= 2;
    positions /= 4;
  }
  layers.push_back({channels / 2, 10, kBatch});
  return layers;
}

/// Thirteen 3x3 convolutions, which have three quarters of the arithmetic, and three dense layers,
/// which hold nine tenths of the parameters.
std::vector<DenseShape> vgg16() {
  std::vector<DenseShape> layers;
  constexpr int kBatch = 256;
  const int stages[5][2] = {{2, 8}, {2, 16}, {3, 16}, {3, 32}, {3, 32}};
  int inputs = 3, positions = 1024 * kBatch;
  for (const auto& [count, channels] : stages) {
    for (int i = 0; i < count; ++i) {
      layers.push_back({9 * inputs, channels, positions});
      inputs = channels;
    }
    positions /= 4;
  }
  layers.push_back({1024, 768, kBatch});
  layers.push_back({768, 128, kBatch});
  layers.push_back({128, 10, kBatch});
  return layers;
}

/// Four blocks of query-key-value, projection and two feed-forward layers over 1,536 tokens; an
/// embedding in front that is looked up, not multiplied, but summed like the rest.
std::vector<DenseShape> transformer() {
  constexpr int kWidth = 128, kTokens = 1536;
  std::vector<DenseShape> layers = {{1000, kWidth, 24}};
  for (int block = 0; block < 4; ++block) {
    layers.push_back({kWidth, 3 * kWidth, kTokens});
    layers.push_back({kWidth, kWidth, kTokens});
    layers.push_back({kWidth, 4 * kWidth, kTokens});
    layers.push_back({4 * kWidth, kWidth, kTokens});
  }
  return layers;
}

}  // namespace

std::optional<std::vector<DenseShape>> workload_layers(std::string_view model) {
  if (model == "mlp") return mlp();
  if (model == "short") return short_mlp();
  if (model == "resnet18") return resnet18();
  if (model == "vgg16") return vgg16();
  if (model == "transformer") return transformer();
  return std::nullopt;
}

Workload::Workload(std::vector<DenseShape> layers, uint64_t seed, const Gemm& gemm)
    : layers_(std::move(layers)), gemm_(gemm) {
  Prng prng(seed);
  const auto noise = [&](size_t count, float scale) {
    std::vector<float> values(count);
    for (float& value : values) value = scale * (static_cast<float>(prng.unit()) - 0.5f);
    return values;
  };
  size_t offset = 0, largest = 0, tiled = 0;
  for (const DenseShape& layer : layers_) {
    SUMCAST_ASSERT(layer.inputs > 0 && layer.outputs > 0 && layer.rows > 0);
    const auto rows = static_cast<size_t>(std::min(layer.rows, kTileRows));
    const size_t weights = static_cast<size_t>(layer.inputs) * static_cast<size_t>(layer.outputs);
    spans_.push_back({offset, weights});
    offset += weights;
    inputs_.push_back(noise(rows * static_cast<size_t>(layer.inputs), 1.0f));
    deltas_.push_back(
        noise(rows * static_cast<size_t>(layer.outputs), 1.0f / static_cast<float>(layer.rows)));
    largest = std::max({largest, inputs_.back().size(), deltas_.back().size()});
    if (layer.rows > kTileRows) tiled = std::max(tiled, weights);
  }
  parameters_ = noise(offset, 0.1f);
  gradients_.assign(offset, 0.0f);
  scratch_.resize(largest);
  tile_gradients_.resize(tiled);
}

void Workload::forward(size_t layer) {
  const DenseShape& s = layers_[layer];
  for (int first = 0; first < s.rows; first += kTileRows) {
    gemm_.ab({std::min(kTileRows, s.rows - first), s.outputs, s.inputs}, inputs_[layer].data(),
             parameters_.data() + spans_[layer].offset, scratch_.data());
  }
}

void Workload::backward(size_t layer) {
  const DenseShape& s = layers_[layer];
  float* const gradients = gradients_.data() + spans_[layer].offset;
  for (int first = 0; first < s.rows; first += kTileRows) {
    const int rows = std::min(kTileRows, s.rows - first);
    float* const out = first == 0 ? gradients : tile_gradients_.data();
    gemm_.atb({s.inputs, s.outputs, rows}, inputs_[layer].data(), deltas_[layer].data(), out);
    if (first > 0) {
      for (size_t i = 0; i < spans_[layer].count; ++i) gradients[i] += out[i];
    }
    if (layer == 0) continue;
    gemm_.abt({rows, s.inputs, s.outputs}, deltas_[layer].data(),
              parameters_.data() + spans_[layer].offset, scratch_.data());
  }
}

}  // namespace sumcast::trainer
