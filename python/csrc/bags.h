// Gradients of bags of rows, merged by row in the order of the samples: the same sums whatever
// numbers the rows have. (torch's own backward of embedding_bag adds a row's samples in the order
// of a sort that is not stable.)
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

namespace sumcast_torch {

/// @param of_bags  f32[bags][dim], on the CPU, as all of them.
/// @param places   int64[n]: the row of each sample.  @param bags  int64[n]: its bag.
/// @param factors  f32[n]: what each sample counts; none: 1.
/// @return f32[rows][dim]
at::Tensor bag_gradients(const at::Tensor& of_bags, const at::Tensor& places,
                         const at::Tensor& bags, const std::optional<at::Tensor>& factors,
                         int64_t rows);

}  // namespace sumcast_torch
