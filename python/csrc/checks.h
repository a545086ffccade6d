// What the lists and shapes of a collective must be, and how they are taken apart.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <utility>
#include <vector>

#include "lanes.h"
#include "staging.h"
#include "work.h"

namespace sumcast_torch {

inline const at::Tensor& only(const std::vector<at::Tensor>& tensors, const char* operation) {
  TORCH_CHECK(tensors.size() == 1, "sumcast: ", operation, " takes one tensor, not ",
              tensors.size());
  check_tensor(tensors[0], operation);
  return tensors[0];
}

/// An operation that unpacks one thing more.
inline void also(Parts& parts, std::function<void()> unpack) {
  parts.unpack =
      parts.unpack
          ? std::function<void()>([first = std::move(parts.unpack), second = std::move(unpack)] {
              first();
              second();
            })
          : std::move(unpack);
}

/// A flat list as lists of `each`.
inline std::vector<Twins> lists_of(const Twins& flat, size_t each) {
  std::vector<Twins> lists;
  for (size_t i = 0; each > 0 && i < flat.size(); i += each) {
    lists.emplace_back(flat.begin() + i, flat.begin() + i + each);
  }
  return lists;
}

inline void check_flat(const at::Tensor& whole, const at::Tensor& part, int size,
                       const char* operation) {
  check_tensor(whole, operation);
  check_tensor(part, operation);
  TORCH_CHECK(whole.scalar_type() == part.scalar_type(), "sumcast: ", operation, " mixes ",
              whole.scalar_type(), " and ", part.scalar_type());
  TORCH_CHECK(whole.numel() == part.numel() * size, "sumcast: ", operation, " in a group of ", size,
              " needs ", size, " times ", part.numel(), " elements, not ", whole.numel());
}

inline void check_list(const std::vector<at::Tensor>& list, const at::Tensor& like, int size,
                       const char* operation) {
  check_tensor(like, operation);
  TORCH_CHECK(list.size() == static_cast<size_t>(size), "sumcast: ", operation, " in a group of ",
              size, " needs ", size, " tensors in the list, not ", list.size());
  for (const at::Tensor& tensor : list) {
    check_tensor(tensor, operation);
    TORCH_CHECK(tensor.scalar_type() == like.scalar_type() && tensor.numel() == like.numel(),
                "sumcast: ", operation, " needs tensors of one type and size, and was given ",
                tensor.scalar_type(), tensor.sizes(), " beside ", like.scalar_type(), like.sizes());
  }
}

}  // namespace sumcast_torch
