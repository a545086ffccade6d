// What the workers of a sparse bench train on, drawn ahead: the same for every path and peer.
#pragma once

#include <cstdint>
#include <vector>

#include "cli/sparse_plan.h"
#include "dataset/key_stream.h"

namespace sumcast::cli {

struct SparseBatches {
  std::vector<std::vector<uint64_t>> keys;  ///< Of each batch: distinct, ascending.
  std::vector<float> noise;                 ///< f32[most keys of a batch][width]

  size_t most() const;
};

/// kInvalidArgument: what the stream may say.
Result<std::unique_ptr<dataset::KeyStream>> make_sparse_stream(const SparseFlags& flags);
SparseBatches draw_sparse_batches(const dataset::KeyStream& stream, const SparseFlags& flags,
                                  uint32_t rank);

}  // namespace sumcast::cli
