// Fully connected layers, ReLU between them: forward, and the slopes back.
//
//   layer l: z = x W + b, W: f32[inputs, outputs], b: f32[outputs], W before b in the buffer;
//   backward: dW = x' dz, db = column sums of dz, dx = dz W', cut off where the ReLU was.
//
// Parameters lie in one buffer that the caller owns, gradients in another of the same layout, so
// that one all-reduce serves them. It knows no loss: who does fills in the last layer's slopes. The
// same inputs give the same bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "trainer/gemm.h"

namespace sumcast::trainer {

/// Part of the parameter (and gradient) buffer that belongs to one layer.
struct LayerSpan {
  size_t offset = 0;  ///< In floats, from the buffer's start.
  size_t count = 0;   ///< Weights and biases together.
};

/// What a thread works with; kept from step to step, so that nothing is allotted anew.
struct LayerMemory {
  std::vector<std::vector<float>> outputs;  ///< Per layer: f32[count, outputs], after ReLU.
  std::vector<std::vector<float>> slopes;   ///< Per layer: the loss's derivative by z.
};

/// Shape alone; any number of threads may use one.
class Layers {
 public:
  /// `widths`: inputs, hidden layers, outputs; at least two entries, all above 0.
  explicit Layers(const std::vector<int>& widths, const Gemm& gemm = best_gemm());

  /// Floats in a buffer of parameters.
  size_t parameters() const { return parameters_; }
  int inputs() const { return layers_.front().inputs; }
  int outputs() const { return layers_.back().outputs; }
  /// One span per layer in the order in which backward completes them: the last layer first.
  std::vector<LayerSpan> spans_in_backward_order() const;

  /// Weights of variance 2 / inputs (He et al. 2015), biases of zero. The same seed gives the same
  /// bits on every machine: the draw uses integers and one rounding each.
  void draw(uint64_t seed, float* parameters) const;
  /// @param input  f32[count, inputs]. @return f32[count, outputs], in `memory`.
  const std::vector<float>& forward(const float* parameters, const float* input, size_t count,
                                    LayerMemory& memory) const;
  /// After forward() of the same, with memory.slopes.back() filled in: f32[count, outputs].
  ///
  /// @param gradients  f32[parameters()]; overwritten.
  /// @param below      the derivative by the input, f32[count, inputs]; overwritten. May be null.
  void backward(const float* parameters, const float* input, size_t count, LayerMemory& memory,
                float* gradients, float* below) const;

 private:
  struct Layer {
    int inputs = 0;
    int outputs = 0;
    size_t offset = 0;  ///< Of the weights; the biases follow them.
    size_t weights() const { return static_cast<size_t>(inputs) * outputs; }
    size_t count() const { return weights() + outputs; }
  };

  const Gemm& gemm_;
  std::vector<Layer> layers_;
  size_t parameters_ = 0;
};

}  // namespace sumcast::trainer
