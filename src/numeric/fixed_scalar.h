// The scalar twin of fixed.h: the same lanes, one at a time, with no notion of segments.
#pragma once

#include <cstddef>
#include <cstdint>

#include "numeric/fixed.h"

namespace sumcast::numeric::scalar {

/// As numeric::block_code.
BlockCode block_code(const float* source, size_t lanes);

/// As numeric::encode_fixed.
void encode_fixed(const float* source, size_t lanes, uint64_t first_element, const BlockCode* codes,
                  uint32_t group_size, std::byte* payload);

/// As numeric::decode_fixed.
void decode_fixed(const std::byte* payload, size_t lanes, uint64_t first_element,
                  const BlockCode* codes, uint32_t group_size, bool average, float* destination);

}  // namespace sumcast::numeric::scalar
