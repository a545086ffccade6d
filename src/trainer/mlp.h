// A multi-layer perceptron, 784-512-512-10: ReLU between layers, softmax cross-entropy at the end.
//
// It stands for any model: all parameters lie in one contiguous buffer and all gradients in
// another of the same layout, so that one all-reduce serves them (669,706 floats, 2.68 MB). It
// does not know that other workers exist, nor how weights are updated.
//
//   layer l: z = x W + b, W: f32[inputs, outputs], b: f32[outputs], W before b in the buffer;
//   backward: dW = x' dz, db = column sums of dz, dx = dz W', cut off where the ReLU was.
//
// The gradient is that of the *mean* loss over the batch: averaging it over workers of equal batch
// gives the gradient of the union of their batches. The same inputs give the same bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "trainer/gemm.h"
#include "trainer/idx.h"

namespace sumcast::trainer {

/// Images and labels of one step, pixels normalised.
struct Batch {
  std::vector<float> pixels;    ///< f32[count, pixels per image]
  std::vector<uint8_t> labels;  ///< u8[count], each below kClasses
};

/// Makes `batch` hold the images of `set` with the given indices, in that order; pixels become
/// (p / 255 - mean) / deviation with the published constants of Fashion-MNIST.
void gather(const ImageSet& set, std::span<const uint32_t> indices, Batch& batch);

/// Part of the parameter (and gradient) buffer that belongs to one layer.
struct LayerSpan {
  size_t offset = 0;  ///< In floats, from the buffer's start.
  size_t count = 0;   ///< Weights and biases together.
};

/// One thread at a time.
class Mlp {
 public:
  /// `widths`: inputs, hidden layers, classes; at least two entries, the last at most 256.
  /// Weights are drawn with variance 2 / inputs (He et al. 2015), biases are zero. The same seed
  /// gives the same bits on every machine: the draw uses integers and one rounding each.
  Mlp(std::vector<int> widths, uint64_t seed, const Gemm& gemm = best_gemm());

  /// Valid as long as the model. Who updates the weights writes here.
  std::span<float> parameters() { return parameters_; }
  std::span<const float> parameters() const { return parameters_; }
  /// What the last forward_backward computed; overwritten by the next. A reduction works in place.
  std::span<float> gradients() { return gradients_; }

  /// One span per layer in the order in which backward completes them: the last layer first.
  std::vector<LayerSpan> spans_in_backward_order() const;

  /// Computes the gradient of the batch's mean loss into gradients() and returns that loss.
  float forward_backward(const Batch& batch);

  /// Share of the images whose label has the highest score, 0 to 1; works through batches.
  double accuracy(const ImageSet& set);

 private:
  struct Layer {
    int inputs = 0;
    int outputs = 0;
    size_t offset = 0;  ///< Of the weights; the biases follow them.
    size_t weights() const { return static_cast<size_t>(inputs) * outputs; }
    size_t count() const { return weights() + outputs; }
  };

  void forward(const float* pixels, size_t count);
  float softmax_backward(std::span<const uint8_t> labels);
  const float* input_of(size_t layer, const float* pixels) const;

  const Gemm& gemm_;
  std::vector<Layer> layers_;
  std::vector<float> parameters_;
  std::vector<float> gradients_;
  std::vector<std::vector<float>> outputs_;  ///< Per layer: f32[count, outputs], after ReLU.
  std::vector<std::vector<float>> deltas_;   ///< Per layer: the loss's derivative by z.
};

}  // namespace sumcast::trainer
