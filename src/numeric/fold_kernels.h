// Inside the room: the two halves of fold.cc, each compiled for all SIMD targets in its own file.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/element.h"

namespace sumcast::numeric {

/// The arguments of fold(), checked.
struct FoldArguments {
  const std::byte* const* sources = nullptr;
  size_t source_count = 0;  ///< 1 or more.
  size_t lanes = 0;
  uint32_t group_size = 1;  ///< What kAvg divides by.
  std::byte* out = nullptr;
};

/// Types for which is_float(); any reduction that applies to floats, but not kCopy.
void fold_floats(ElementType type, Reduction reduction, const FoldArguments& arguments);

/// Integers and bool; any reduction but kCopy. Averages of integers are left undivided.
void fold_integers(ElementType type, Reduction reduction, const FoldArguments& arguments);

}  // namespace sumcast::numeric
