// bf16, fp16 and int8 payloads for every SIMD target.
//
// Sums of bf16 and fp16 payloads are folds of those types (fold_float.cc). A sum of int8 payloads
// goes block by block: all sources are decoded and added in registers, one vector of lanes after
// the other, into a block of f32 on the stack, which is then encoded.
#include <cstdint>

#include "numeric/codec_kernels.h"
#include "numeric/codec_scalar.h"
#include "numeric/int8_block.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "numeric/codec_kernels.cc"
#include "numeric/simd_targets.h"

#include "hwy/foreach_target.h"

#include "hwy/highway.h"

#include "numeric/block_scan-inl.h"
#include "numeric/fold_loop-inl.h"
#include "numeric/half-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sumcast::numeric {
namespace HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR

using F32 = hn::ScalableTag<float>;
using Codes = hn::Rebind<int8_t, F32>;
using Words = hn::RebindToSigned<F32>;

HWY_INLINE hn::Vec<F32> canonical_nan() {
  return hn::BitCast(F32(), hn::Set(hn::RebindToUnsigned<F32>(), kCanonicalNanF32));
}

HWY_INLINE hn::Vec<F32> infinity() {
  return hn::BitCast(F32(), hn::Set(hn::RebindToUnsigned<F32>(), kInfinityBitsF32));
}

// A conversion copies a vector of lanes from one width to another: `convert`, with the bytes per
// lane on both sides. Lanes that fill no vector pass through staging buffers.
template <class Conversion>
HWY_INLINE void convert_lanes(const Conversion& conversion, const std::byte* from, size_t lanes,
                              std::byte* to) {
  const size_t step = hn::Lanes(F32());
  size_t i = 0;
  for (; i + step <= lanes; i += step) {
    conversion.convert(from + i * Conversion::kFrom, to + i * Conversion::kTo);
  }
  if (i == lanes) return;
  Stage before;
  Stage after;
  std::memcpy(before.bytes, from + i * Conversion::kFrom, (lanes - i) * Conversion::kFrom);
  conversion.convert(before.bytes, after.bytes);
  std::memcpy(to + i * Conversion::kTo, after.bytes, (lanes - i) * Conversion::kTo);
}

struct ToBF16 {
  static constexpr size_t kFrom = 4, kTo = 2;
  static HWY_INLINE void convert(const std::byte* from, std::byte* to) {
    store_bf16(F32(), load(F32(), from), to);
  }
};

struct ToF16 {
  static constexpr size_t kFrom = 4, kTo = 2;
  static HWY_INLINE void convert(const std::byte* from, std::byte* to) {
    store_f16(F32(), load(F32(), from), to);
  }
};

HWY_INLINE void store_canonical(hn::Vec<F32> value, std::byte* to) {
  store(F32(), hn::IfThenElse(hn::IsNaN(value), canonical_nan(), value), to);
}

struct FromBF16 {
  static constexpr size_t kFrom = 2, kTo = 4;
  static HWY_INLINE void convert(const std::byte* from, std::byte* to) {
    store_canonical(load_bf16(F32(), from), to);
  }
};

struct FromF16 {
  static constexpr size_t kFrom = 2, kTo = 4;
  static HWY_INLINE void convert(const std::byte* from, std::byte* to) {
    store_canonical(load_f16(F32(), from), to);
  }
};

HWY_INLINE hn::Vec<F32> int8_values(const std::byte* codes, hn::Vec<F32> scale) {
  const auto code = hn::PromoteTo(Words(), load(Codes(), codes));
  const auto finite = hn::Mul(hn::ConvertTo(F32(), code), scale);
  const auto is = [&](int32_t reserved) HWY_ATTR {
    return hn::RebindMask(F32(), hn::Eq(code, hn::Set(Words(), reserved)));
  };
  auto value = hn::IfThenElse(is(kInt8PlusInfinity), infinity(), finite);
  value = hn::IfThenElse(is(kInt8MinusInfinity), hn::Neg(infinity()), value);
  return hn::IfThenElse(is(kInt8Nan), canonical_nan(), value);
}

struct FromInt8 {
  static constexpr size_t kFrom = 1, kTo = 4;
  hn::Vec<F32> scale;
  HWY_INLINE void convert(const std::byte* from, std::byte* to) const {
    store_canonical(int8_values(from, scale), to);
  }
};

struct ToInt8 {
  static constexpr size_t kFrom = 4, kTo = 1;
  hn::Vec<F32> divisor;  ///< The scale; 1 for an all-zero block, whose codes are 0 either way.
  HWY_INLINE void convert(const std::byte* from, std::byte* to) const {
    const auto value = load(F32(), from);
    const auto instead = [](hn::Mask<F32> when, int32_t reserved, hn::Vec<Words> code) HWY_ATTR {
      return hn::IfThenElse(hn::RebindMask(Words(), when), hn::Set(Words(), reserved), code);
    };
    auto code = hn::NearestInt(hn::Div(value, divisor));
    code = instead(hn::Eq(value, infinity()), kInt8PlusInfinity, code);
    code = instead(hn::Eq(value, hn::Neg(infinity())), kInt8MinusInfinity, code);
    code = instead(hn::IsNaN(value), kInt8Nan, code);
    store(Codes(), hn::DemoteTo(Codes(), code), to);
  }
};

void encode_int8_block(const float* source, size_t lanes, std::byte* block) {
  const float scale = int8_scale(scan_block(source, lanes).max_finite_bits);
  store_unaligned(block, scale);
  const ToInt8 conversion{hn::Set(F32(), scale == 0.0f ? 1.0f : scale)};
  convert_lanes(conversion, reinterpret_cast<const std::byte*>(source), lanes,
                block + kInt8ScaleBytes);
}

// Adds one block. The last block of a chunk may be short: then its codes are staged, so that whole
// vectors can be read; lanes past the end are summed and forgotten.
void fold_int8_block(Reduction reduction, const FoldArguments& arguments, size_t offset,
                     size_t lanes) {
  const size_t step = hn::Lanes(F32());
  const auto divisor = hn::Set(F32(), static_cast<float>(arguments.group_size));
  HWY_ALIGN float sums[kBlockLanes];
  HWY_ALIGN std::byte staged[HWY_MAX_BYTES] = {};
  for (size_t i = 0; i < lanes; i += step) {
    auto sum = hn::Zero(F32());
    for (size_t k = 0; k < arguments.source_count; ++k) {
      const std::byte* block = arguments.sources[k] + offset;
      const std::byte* codes = block + kInt8ScaleBytes + i;
      if (lanes - i < step) {
        std::memcpy(staged, codes, lanes - i);
        codes = staged;
      }
      const auto addend = int8_values(codes, hn::Set(F32(), int8_scale_from_wire(block)));
      sum = k == 0 ? addend : hn::Add(sum, addend);
    }
    if (reduction == Reduction::kAvg) sum = hn::Div(sum, divisor);
    hn::Store(sum, F32(), sums + i);
  }
  encode_int8_block(sums, lanes, arguments.out + offset);
}

#endif  // HWY_TARGET != HWY_SCALAR

void encode_half_kernel(WireFormat format, const float* source, size_t lanes, std::byte* payload) {
#if HWY_TARGET == HWY_SCALAR
  scalar::encode(format, source, lanes, payload);
#else
  const std::byte* from = reinterpret_cast<const std::byte*>(source);
  if (format == WireFormat::kBF16) return convert_lanes(ToBF16(), from, lanes, payload);
  convert_lanes(ToF16(), from, lanes, payload);
#endif
}

void decode_half_kernel(WireFormat format, const std::byte* payload, size_t lanes,
                        float* destination) {
#if HWY_TARGET == HWY_SCALAR
  scalar::decode(format, payload, lanes, destination);
#else
  std::byte* to = reinterpret_cast<std::byte*>(destination);
  if (format == WireFormat::kBF16) return convert_lanes(FromBF16(), payload, lanes, to);
  convert_lanes(FromF16(), payload, lanes, to);
#endif
}

void encode_int8_kernel(const float* source, size_t lanes, std::byte* payload) {
#if HWY_TARGET == HWY_SCALAR
  scalar::encode(WireFormat::kInt8, source, lanes, payload);
#else
  for (size_t i = 0; i < lanes; i += kBlockLanes) {
    encode_int8_block(source + i, int8_block_lanes(lanes, i), payload + int8_block_offset(i));
  }
#endif
}

void decode_int8_kernel(const std::byte* payload, size_t lanes, float* destination) {
#if HWY_TARGET == HWY_SCALAR
  scalar::decode(WireFormat::kInt8, payload, lanes, destination);
#else
  for (size_t i = 0; i < lanes; i += kBlockLanes) {
    const std::byte* block = payload + int8_block_offset(i);
    const FromInt8 conversion{hn::Set(F32(), int8_scale_from_wire(block))};
    convert_lanes(conversion, block + kInt8ScaleBytes, int8_block_lanes(lanes, i),
                  reinterpret_cast<std::byte*>(destination + i));
  }
#endif
}

void fold_int8_kernel(Reduction reduction, const FoldArguments& arguments) {
#if HWY_TARGET == HWY_SCALAR
  scalar::fold_encoded(WireFormat::kInt8, reduction, arguments.sources, arguments.source_count,
                       arguments.lanes, arguments.group_size, arguments.out);
#else
  for (size_t i = 0; i < arguments.lanes; i += kBlockLanes) {
    fold_int8_block(reduction, arguments, int8_block_offset(i),
                    int8_block_lanes(arguments.lanes, i));
  }
#endif
}

}  // namespace HWY_NAMESPACE
}  // namespace sumcast::numeric
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sumcast::numeric {

HWY_EXPORT(encode_half_kernel);
HWY_EXPORT(decode_half_kernel);
HWY_EXPORT(encode_int8_kernel);
HWY_EXPORT(decode_int8_kernel);
HWY_EXPORT(fold_int8_kernel);

void encode_half(WireFormat format, const float* source, size_t lanes, std::byte* payload) {
  HWY_DYNAMIC_DISPATCH(encode_half_kernel)(format, source, lanes, payload);
}

void decode_half(WireFormat format, const std::byte* payload, size_t lanes, float* destination) {
  HWY_DYNAMIC_DISPATCH(decode_half_kernel)(format, payload, lanes, destination);
}

void encode_int8(const float* source, size_t lanes, std::byte* payload) {
  HWY_DYNAMIC_DISPATCH(encode_int8_kernel)(source, lanes, payload);
}

void decode_int8(const std::byte* payload, size_t lanes, float* destination) {
  HWY_DYNAMIC_DISPATCH(decode_int8_kernel)(payload, lanes, destination);
}

void fold_int8(Reduction reduction, const FoldArguments& arguments) {
  HWY_DYNAMIC_DISPATCH(fold_int8_kernel)(reduction, arguments);
}

}  // namespace sumcast::numeric
#endif  // HWY_ONCE
