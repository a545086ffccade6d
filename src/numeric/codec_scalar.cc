#include "numeric/codec_scalar.h"

#include <cmath>

#include "base/assert.h"
#include "numeric/codec.h"
#include "numeric/element_traits.h"
#include "numeric/fold_scalar.h"
#include "numeric/int8_block.h"

namespace sumcast::numeric::scalar {
namespace {

float lane(const float* lanes, size_t i) {
  return load_unaligned<float>(reinterpret_cast<const std::byte*>(lanes) + 4 * i);
}

void set_lane(float* lanes, size_t i, float value) {
  store_unaligned(reinterpret_cast<std::byte*>(lanes) + 4 * i, value);
}

int32_t int8_code(float value, float scale) {
  if (value != value) return kInt8Nan;
  if (std::isinf(value)) return value > 0 ? kInt8PlusInfinity : kInt8MinusInfinity;
  if (scale == 0.0f) return 0;
  return static_cast<int32_t>(std::nearbyint(value / scale));
}

float int8_value(int32_t code, float scale) {
  if (code == kInt8Nan) return std::bit_cast<float>(kCanonicalNanF32);
  if (code == kInt8PlusInfinity) return INFINITY;
  if (code == kInt8MinusInfinity) return -INFINITY;
  return canonical(static_cast<float>(code) * scale);
}

void encode_block(const float* source, size_t lanes, std::byte* block) {
  uint32_t max_finite_bits = 0;
  for (size_t i = 0; i < lanes; ++i) {
    const uint32_t bits = std::bit_cast<uint32_t>(lane(source, i)) & kMagnitudeMaskF32;
    if (bits <= kMaxFiniteBitsF32) max_finite_bits = std::max(max_finite_bits, bits);
  }
  const float scale = int8_scale(max_finite_bits);
  store_unaligned(block, scale);
  for (size_t i = 0; i < lanes; ++i) {
    block[kInt8ScaleBytes + i] = static_cast<std::byte>(int8_code(lane(source, i), scale));
  }
}

void decode_block(const std::byte* block, size_t lanes, float* destination) {
  const float scale = int8_scale_from_wire(block);
  for (size_t i = 0; i < lanes; ++i) {
    const int8_t code = load_unaligned<int8_t>(block + kInt8ScaleBytes + i);
    set_lane(destination, i, int8_value(code, scale));
  }
}

void fold_block(Reduction reduction, const std::byte* const* sources, size_t source_count,
                size_t offset, size_t lanes, uint32_t group_size, std::byte* out) {
  float sums[kBlockLanes];
  decode_block(sources[0] + offset, lanes, sums);
  for (size_t k = 1; k < source_count; ++k) {
    float addends[kBlockLanes];
    decode_block(sources[k] + offset, lanes, addends);
    for (size_t i = 0; i < lanes; ++i) sums[i] += addends[i];
  }
  if (reduction == Reduction::kAvg) {
    for (size_t i = 0; i < lanes; ++i) sums[i] /= static_cast<float>(group_size);
  }
  encode_block(sums, lanes, out + offset);
}

}  // namespace

void encode(WireFormat format, const float* source, size_t lanes, std::byte* payload) {
  switch (format) {
    case WireFormat::kBF16:
      for (size_t i = 0; i < lanes; ++i) {
        store_unaligned(payload + 2 * i, bf16_from_f32(lane(source, i)));
      }
      return;
    case WireFormat::kFP16:
      for (size_t i = 0; i < lanes; ++i) {
        store_unaligned(payload + 2 * i, f16_from_f32(lane(source, i)));
      }
      return;
    default:
      SUMCAST_ASSERT(format == WireFormat::kInt8);
      for (size_t i = 0; i < lanes; i += kBlockLanes) {
        encode_block(source + i, int8_block_lanes(lanes, i), payload + int8_block_offset(i));
      }
  }
}

void decode(WireFormat format, const std::byte* payload, size_t lanes, float* destination) {
  switch (format) {
    case WireFormat::kBF16:
      for (size_t i = 0; i < lanes; ++i) {
        const float value = f32_from_bf16(load_unaligned<uint16_t>(payload + 2 * i));
        set_lane(destination, i, canonical(value));
      }
      return;
    case WireFormat::kFP16:
      for (size_t i = 0; i < lanes; ++i) {
        const float value = f32_from_f16(load_unaligned<uint16_t>(payload + 2 * i));
        set_lane(destination, i, canonical(value));
      }
      return;
    default:
      SUMCAST_ASSERT(format == WireFormat::kInt8);
      for (size_t i = 0; i < lanes; i += kBlockLanes) {
        decode_block(payload + int8_block_offset(i), int8_block_lanes(lanes, i), destination + i);
      }
  }
}

void fold_encoded(WireFormat format, Reduction reduction, const std::byte* const* sources,
                  size_t source_count, size_t lanes, uint32_t group_size, std::byte* out_payload) {
  SUMCAST_ASSERT(wire_format_applies(ElementType::kF32, reduction, format));
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
      SUMCAST_ASSERT(format == WireFormat::kInt8);
      for (size_t i = 0; i < lanes; i += kBlockLanes) {
        fold_block(reduction, sources, source_count, int8_block_offset(i),
                   int8_block_lanes(lanes, i), group_size, out_payload);
      }
  }
}

}  // namespace sumcast::numeric::scalar
