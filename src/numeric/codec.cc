#include "numeric/codec.h"

#include <algorithm>

#include "base/assert.h"
#include "numeric/codec_kernels.h"
#include "numeric/fold.h"
#include "numeric/int8_block.h"

namespace sumcast::numeric {
namespace {

constexpr size_t kLineBytes = 64;

// Bytes per lane, but for int8's scales.
size_t lane_bytes(ElementType type, WireFormat format) {
  switch (format) {
    case WireFormat::kNative:
      return element_bytes(type);
    case WireFormat::kBF16:
    case WireFormat::kFP16:
      return 2;
    case WireFormat::kInt8:
      return 1;
    case WireFormat::kFixed:
      return 4;
  }
  return 0;
}

}  // namespace

size_t lanes_per_chunk(ElementType type, WireFormat format, size_t payload_bytes_max) {
  SUMCAST_ASSERT(payload_bytes_max >= payload_bytes(type, format, 1));
  if (format == WireFormat::kInt8) {
    const size_t blocks = payload_bytes_max / kInt8BlockBytes;
    return blocks > 0 ? blocks * kBlockLanes : payload_bytes_max - kInt8ScaleBytes;
  }
  const size_t lines = payload_bytes_max / kLineBytes;
  const size_t bytes = lines > 0 ? lines * kLineBytes : payload_bytes_max;
  return bytes / lane_bytes(type, format);
}

size_t payload_bytes(ElementType type, WireFormat format, size_t lanes) {
  size_t bytes = lanes * lane_bytes(type, format);
  if (format == WireFormat::kInt8) {
    bytes += (lanes + kBlockLanes - 1) / kBlockLanes * kInt8ScaleBytes;
  }
  return bytes;
}

void encode(WireFormat format, const float* source, size_t lanes, std::byte* payload) {
  if (lanes == 0) return;
  if (format == WireFormat::kInt8) {
    encode_int8(source, lanes, payload);
    return;
  }
  SUMCAST_ASSERT(format == WireFormat::kBF16 || format == WireFormat::kFP16);
  encode_half(format, source, lanes, payload);
}

void decode(WireFormat format, const std::byte* payload, size_t lanes, float* destination) {
  if (lanes == 0) return;
  if (format == WireFormat::kInt8) {
    decode_int8(payload, lanes, destination);
    return;
  }
  SUMCAST_ASSERT(format == WireFormat::kBF16 || format == WireFormat::kFP16);
  decode_half(format, payload, lanes, destination);
}

void fold_encoded(WireFormat format, Reduction reduction, const std::byte* const* sources,
                  size_t source_count, size_t lanes, uint32_t group_size, std::byte* out_payload) {
  SUMCAST_ASSERT(wire_format_applies(ElementType::kF32, reduction, format));
  SUMCAST_ASSERT(source_count >= 1);
  switch (format) {
    case WireFormat::kBF16:
      return fold(ElementType::kBF16, reduction, sources, source_count, lanes, group_size,
                  out_payload);
    case WireFormat::kFP16:
      return fold(ElementType::kF16, reduction, sources, source_count, lanes, group_size,
                  out_payload);
    case WireFormat::kFixed:
      return fold(ElementType::kI32, Reduction::kSum, sources, source_count, lanes, 1, out_payload);
    default:
      break;
  }
  SUMCAST_ASSERT(format == WireFormat::kInt8);
  if (reduction == Reduction::kAvg) {
    SUMCAST_ASSERT(group_size >= 1);
    SUMCAST_ASSERT(group_size <= kGroupSizeMax);
  }
  fold_int8(reduction, FoldArguments{sources, source_count, lanes, group_size, out_payload});
}

}  // namespace sumcast::numeric
