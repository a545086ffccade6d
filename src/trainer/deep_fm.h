// DeepFM (Guo and others 2017): a factorization machine and fully connected layers over the same
// embeddings, their scores added.
//
//   x[field] = sum of v x over the sample's features of that field   f32[factors]
//   z        = fm's z + layers(x[0], x[1], ...)                       layers: fields * factors
//   inputs
//
// The rows are fm's. The layers' parameters are the dense part: every sample uses all of them, so
// their gradients are summed by an ordinary all-reduce in the same step.
#pragma once

#include <memory>

#include "trainer/sparse_model.h"

namespace sumcast::trainer {

/// Most fields: with more the layers would be all of the model.
inline constexpr uint32_t kFieldsMax = 64;

/// kInvalidArgument: no or too many fields, or a hidden layer without outputs or above 4,096.
Result<std::unique_ptr<SparseModel>> make_deep_fm(const ModelShape& shape);

}  // namespace sumcast::trainer
