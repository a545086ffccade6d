// Computing shaped like a model's, to measure schedules under: dense layers that can be run one by
// one, forward and backward, so that sums can start in between.
//
// Every layer is three real products per step (outputs, weight gradients, input gradients) over its
// own fixed inputs: what a convolution costs as a product over positions, with the model's ratio of
// parameters to arithmetic layer by layer. Rows are worked through in tiles that stay in the cache,
// as libraries of convolutions do, so that arithmetic bounds a step and not main memory, which all
// processes of a machine share. It learns nothing - layers do not feed each other, and all tiles of
// a layer are one - and nothing in it is ever slept. Where learning matters, see mlp.h.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "trainer/gemm.h"
#include "trainer/mlp.h"

namespace sumcast::trainer {

struct DenseShape {
  int inputs = 0;
  int outputs = 0;
  int rows = 0;  ///< Images of the batch, times the positions that share the weights.
};

/// "mlp", "resnet18", "vgg16", "transformer": the latter three narrow, with the proportions of the
/// originals (where the parameters are, and where the arithmetic). "short": an MLP of short steps.
std::optional<std::vector<DenseShape>> workload_layers(std::string_view model);
inline constexpr std::string_view kWorkloadNames = "mlp, resnet18, vgg16, transformer, short";

/// One thread.
class Workload {
 public:
  static constexpr int kTileRows = 512;

  Workload(std::vector<DenseShape> layers, uint64_t seed, const Gemm& gemm = best_gemm());

  size_t layers() const { return layers_.size(); }
  /// Where a layer's parameters and gradients lie, in forward order.
  LayerSpan span(size_t layer) const { return spans_[layer]; }
  std::span<float> parameters() { return parameters_; }
  std::span<float> gradients() { return gradients_; }

  void forward(size_t layer);
  /// Writes the layer's part of gradients().
  void backward(size_t layer);

 private:
  std::vector<DenseShape> layers_;
  std::vector<LayerSpan> spans_;
  const Gemm& gemm_;
  std::vector<float> parameters_, gradients_;
  std::vector<std::vector<float>> inputs_, deltas_;
  std::vector<float> scratch_, tile_gradients_;
};

}  // namespace sumcast::trainer
