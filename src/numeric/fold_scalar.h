// The scalar twin of fold.h: the same results, one lane at a time, by the plainest code.
//
// It defines what the kernels must equal to the bit, and it is what runs on a CPU without SSE4.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/element.h"

namespace sumcast::numeric::scalar {

/// As numeric::fold.
void fold(ElementType type, Reduction reduction, const std::byte* const* sources,
          size_t source_count, size_t lanes, uint32_t group_size, std::byte* out);

}  // namespace sumcast::numeric::scalar
