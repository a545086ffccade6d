// The scalar twin of codec.h: the same bytes, one lane at a time.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/element.h"

namespace sumcast::numeric::scalar {

/// As numeric::encode.
void encode(WireFormat format, const float* source, size_t lanes, std::byte* payload);

/// As numeric::decode.
void decode(WireFormat format, const std::byte* payload, size_t lanes, float* destination);

/// As numeric::fold_encoded.
void fold_encoded(WireFormat format, Reduction reduction, const std::byte* const* sources,
                  size_t source_count, size_t lanes, uint32_t group_size, std::byte* out_payload);

}  // namespace sumcast::numeric::scalar
