#include "bags.h"

#include <torch/types.h>

#include <stdexcept>

namespace sumcast_torch {
namespace {

void check(const at::Tensor& tensor, at::ScalarType type, int64_t dimensions) {
  if (tensor.scalar_type() == type && tensor.is_contiguous() && tensor.device().is_cpu() &&
      tensor.dim() == dimensions) {
    return;
  }
  throw std::invalid_argument("sumcast: gradients of bags of another type, shape or device");
}

}  // namespace

at::Tensor bag_gradients(const at::Tensor& of_bags, const at::Tensor& places,
                         const at::Tensor& bags, const std::optional<at::Tensor>& factors,
                         int64_t rows) {
  check(of_bags, at::kFloat, 2);
  check(places, at::kLong, 1);
  check(bags, at::kLong, 1);
  if (factors) check(*factors, at::kFloat, 1);
  const int64_t samples = places.numel(), dim = of_bags.size(1);
  if (bags.numel() != samples || (factors && factors->numel() != samples)) {
    throw std::invalid_argument("sumcast: gradients of bags: lengths differ");
  }
  at::Tensor merged = torch::zeros({rows, dim}, of_bags.options());
  float* const to = merged.data_ptr<float>();
  const float* const from = of_bags.const_data_ptr<float>();
  const int64_t* const place = places.const_data_ptr<int64_t>();
  const int64_t* const bag = bags.const_data_ptr<int64_t>();
  const float* const factor = factors ? factors->const_data_ptr<float>() : nullptr;
  for (int64_t i = 0; i < samples; ++i) {
    if (place[i] < 0 || place[i] >= rows || bag[i] < 0 || bag[i] >= of_bags.size(0)) {
      throw std::out_of_range("sumcast: gradients of bags: a sample of no row or bag");
    }
    float* const row = to + place[i] * dim;
    const float* const gradient = from + bag[i] * dim;
    if (factor == nullptr) {
      for (int64_t lane = 0; lane < dim; ++lane) row[lane] += gradient[lane];
    } else {
      for (int64_t lane = 0; lane < dim; ++lane) row[lane] += factor[i] * gradient[lane];
    }
  }
  return merged;
}

}  // namespace sumcast_torch
