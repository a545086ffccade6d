// How f32 lanes travel in fewer bytes, and how many lanes fit a payload.
//
// A codec turns the f32 lanes of one chunk into a payload and back; fold_encoded adds payloads:
// decode, canonical f32 fold in the given order, encode once. Nothing here knows of packets; a
// payload is bytes at any alignment, as it lies in a receive buffer. Layouts, rules and error
// bounds are docs/numerics.md, N10 to N13. The format kFixed is in fixed.h, because its lanes can
// be read only with the block codes that all ranks agreed on.
//
// int8 payload: blocks of 256 lanes (the last one shorter), each a 4-byte little-endian f32 scale
// and one signed byte a lane. A lane's value is byte * scale for bytes of -126..126; -128 is NaN,
// 127 is +Inf, -127 is -Inf. Scales have 17 significant bits, so that byte * scale is exact.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/element.h"

namespace sumcast::numeric {

/// Lanes under one scale (int8) or one exponent (fixed).
inline constexpr size_t kBlockLanes = 256;

/// Whether a tensor of `type` may be reduced by `reduction` and travel as `format`: native takes
/// what reduction_applies() takes; the others want f32 and sum or avg, bf16 and fp16 also min, max
/// and product.
constexpr bool wire_format_applies(ElementType type, Reduction reduction, WireFormat format) {
  if (format == WireFormat::kNative) return reduction_applies(type, reduction);
  if (type != ElementType::kF32) return false;
  if (reduction == Reduction::kSum || reduction == Reduction::kAvg) return true;
  const bool sixteen_bits = format == WireFormat::kBF16 || format == WireFormat::kFP16;
  return sixteen_bits && (reduction == Reduction::kMin || reduction == Reduction::kMax ||
                          reduction == Reduction::kProduct);
}

/// How many lanes a chunk carries in at most `payload_bytes_max` bytes: at least 1, in whole
/// 64-byte lines where one fits (1,420 bytes carry 352 f32), whole blocks for int8 where one fits.
///
/// @pre payload_bytes_max holds one lane (with its scale, for int8).
size_t lanes_per_chunk(ElementType type, WireFormat format, size_t payload_bytes_max);

/// The bytes that `lanes` lanes take on the wire. A chunk starts a block of int8.
size_t payload_bytes(ElementType type, WireFormat format, size_t lanes);

/// Writes `lanes` f32 lanes as `payload_bytes(kF32, format, lanes)` bytes, each rounded to nearest
/// even once. `format` is kBF16, kFP16 or kInt8. Neither pointer need be aligned.
void encode(WireFormat format, const float* source, size_t lanes, std::byte* payload);

/// The reverse; exact. Takes any bytes: what no encoder writes still decodes to some float.
void decode(WireFormat format, const std::byte* payload, size_t lanes, float* destination);

/// Adds encoded payloads: each is decoded, folded in f32 from the left, kAvg divides by
/// `group_size`, the result is encoded once.
///
/// @param format      kBF16, kFP16, kInt8; or kFixed, whose payloads are wrapping int32 (an
///                    average is then taken by decode_fixed, not here).
/// @param sources     source_count >= 1 payloads of `lanes` lanes.
/// @param out_payload may be one of the sources exactly; never overlaps one partially.
/// @pre wire_format_applies(kF32, reduction, format).
void fold_encoded(WireFormat format, Reduction reduction, const std::byte* const* sources,
                  size_t source_count, size_t lanes, uint32_t group_size, std::byte* out_payload);

}  // namespace sumcast::numeric
