// Inside the room: what codec_kernels.cc compiles for all SIMD targets.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/element.h"
#include "numeric/fold_kernels.h"

namespace sumcast::numeric {

/// As encode(), for kBF16 and kFP16; lanes >= 1.
void encode_half(WireFormat format, const float* source, size_t lanes, std::byte* payload);

/// As decode(), for kBF16 and kFP16; lanes >= 1.
void decode_half(WireFormat format, const std::byte* payload, size_t lanes, float* destination);

/// As encode(), for kInt8.
void encode_int8(const float* source, size_t lanes, std::byte* payload);

/// As decode(), for kInt8.
void decode_int8(const std::byte* payload, size_t lanes, float* destination);

/// As fold_encoded(), for kInt8. `reduction` is kSum or kAvg.
void fold_int8(Reduction reduction, const FoldArguments& arguments);

}  // namespace sumcast::numeric
