// A multi-layer perceptron, 784-512-512-10: ReLU between layers, softmax cross-entropy at the end.
//
// It stands for any model: all parameters lie in one contiguous buffer and all gradients in
// another of the same layout, so that one all-reduce serves them (669,706 floats, 2.68 MB). It
// does not know that other workers exist, nor how weights are updated.
//
// The gradient is that of the *mean* loss over the batch: averaging it over workers of equal batch
// gives the gradient of the union of their batches. The same inputs give the same bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "trainer/idx.h"
#include "trainer/layers.h"

namespace sumcast::trainer {

/// Images and labels of one step, pixels normalised.
struct Batch {
  std::vector<float> pixels;    ///< f32[count, pixels per image]
  std::vector<uint8_t> labels;  ///< u8[count], each below kClasses
};

/// Makes `batch` hold the images of `set` with the given indices, in that order; pixels become
/// (p / 255 - mean) / deviation with the published constants of Fashion-MNIST.
void gather(const ImageSet& set, std::span<const uint32_t> indices, Batch& batch);

/// One thread at a time.
class Mlp {
 public:
  /// `widths`: inputs, hidden layers, classes; at least two entries, the last at most 256.
  /// Weights are drawn as Layers::draw says.
  Mlp(const std::vector<int>& widths, uint64_t seed, const Gemm& gemm = best_gemm());

  /// Valid as long as the model. Who updates the weights writes here.
  std::span<float> parameters() { return parameters_; }
  std::span<const float> parameters() const { return parameters_; }
  /// What the last forward_backward computed; overwritten by the next. A reduction works in place.
  std::span<float> gradients() { return gradients_; }

  /// One span per layer in the order in which backward completes them: the last layer first.
  std::vector<LayerSpan> spans_in_backward_order() const {
    return layers_.spans_in_backward_order();
  }

  /// Computes the gradient of the batch's mean loss into gradients() and returns that loss.
  float forward_backward(const Batch& batch);

  /// Share of the images whose label has the highest score, 0 to 1; works through batches.
  double accuracy(const ImageSet& set);

 private:
  float softmax_backward(std::span<const uint8_t> labels);

  Layers layers_;
  std::vector<float> parameters_;
  std::vector<float> gradients_;
  LayerMemory memory_;
};

}  // namespace sumcast::trainer
