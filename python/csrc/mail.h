// How messages are told apart.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include <cstdint>

namespace sumcast_torch {

/// Equal at both ends of a message that mean the same.
inline uint32_t check_of(c10d::OpType type, const at::Tensor& tensor) {
  return static_cast<uint32_t>(type) << 8 | static_cast<uint32_t>(tensor.scalar_type());
}

}  // namespace sumcast_torch
