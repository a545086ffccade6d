// Fixed point for every SIMD target: block codes, and lanes of blocks without NaN and infinity.
#include <cstdint>

#include "numeric/fixed_kernels.h"
#include "numeric/fixed_scalar.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "numeric/fixed_kernels.cc"
#include "numeric/simd_targets.h"

#include "hwy/foreach_target.h"

#include "hwy/highway.h"

#include "numeric/block_scan-inl.h"
#include "numeric/fold_loop-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sumcast::numeric {
namespace HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR

using F32 = hn::ScalableTag<float>;
using I32 = hn::ScalableTag<int32_t>;

struct ToFixed {
  hn::Vec<F32> first, second;
  HWY_INLINE void convert(const std::byte* from, std::byte* to) const {
    const auto scaled = hn::Mul(hn::Mul(load(F32(), from), first), second);
    store(I32(), hn::NearestInt(scaled), to);
  }
};

struct FromFixed {
  hn::Vec<F32> first, second, divisor, limit;
  HWY_INLINE void convert(const std::byte* from, std::byte* to) const {
    const auto mean = hn::Div(hn::ConvertTo(F32(), load(I32(), from)), divisor);
    const auto limited = hn::Max(hn::Min(mean, limit), hn::Neg(limit));
    store(F32(), hn::Mul(hn::Mul(limited, first), second), to);
  }
};

template <class Conversion>
HWY_INLINE void convert_words(const Conversion& conversion, const std::byte* from, size_t lanes,
                              std::byte* to) {
  const size_t step = 4 * hn::Lanes(F32());
  const size_t bytes = 4 * lanes;
  size_t i = 0;
  for (; i + step <= bytes; i += step) conversion.convert(from + i, to + i);
  if (i == bytes) return;
  Stage stage;
  std::memcpy(stage.bytes, from + i, bytes - i);
  conversion.convert(stage.bytes, stage.bytes);
  std::memcpy(to + i, stage.bytes, bytes - i);
}

#endif  // HWY_TARGET != HWY_SCALAR

BlockCode block_code_kernel(const float* source, size_t lanes) {
#if HWY_TARGET == HWY_SCALAR
  return scalar::block_code(source, lanes);
#else
  const BlockScan scan = scan_block(source, lanes);
  return BlockCode{static_cast<uint8_t>(scan.max_finite_bits >> 23),
                   static_cast<uint8_t>(scan.has_nonfinite ? 1 : 0)};
#endif
}

void encode_plain_kernel(const float* source, size_t lanes, Scaling scaling, std::byte* payload) {
  const std::byte* from = reinterpret_cast<const std::byte*>(source);
#if HWY_TARGET == HWY_SCALAR
  for (size_t i = 0; i < 4 * lanes; i += 4) {
    const float scaled = scaling.apply(load_unaligned<float>(from + i));
    store_unaligned(payload + i, to_nearest_integer(scaled));
  }
#else
  const ToFixed conversion{hn::Set(F32(), scaling.first), hn::Set(F32(), scaling.second)};
  convert_words(conversion, from, lanes, payload);
#endif
}

void decode_plain_kernel(const std::byte* payload, size_t lanes, const Unscaling& unscaling,
                         float* destination) {
  std::byte* to = reinterpret_cast<std::byte*>(destination);
#if HWY_TARGET == HWY_SCALAR
  for (size_t i = 0; i < 4 * lanes; i += 4) {
    store_unaligned(to + i, unscaling.apply(load_unaligned<int32_t>(payload + i)));
  }
#else
  const FromFixed conversion{hn::Set(F32(), unscaling.scaling.first),
                             hn::Set(F32(), unscaling.scaling.second),
                             hn::Set(F32(), unscaling.divisor), hn::Set(F32(), unscaling.limit)};
  convert_words(conversion, payload, lanes, to);
#endif
}

}  // namespace HWY_NAMESPACE
}  // namespace sumcast::numeric
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sumcast::numeric {

HWY_EXPORT(block_code_kernel);
HWY_EXPORT(encode_plain_kernel);
HWY_EXPORT(decode_plain_kernel);

BlockCode block_code(const float* source, size_t lanes) {
  return HWY_DYNAMIC_DISPATCH(block_code_kernel)(source, lanes);
}

void encode_plain(const float* source, size_t lanes, Scaling scaling, std::byte* payload) {
  HWY_DYNAMIC_DISPATCH(encode_plain_kernel)(source, lanes, scaling, payload);
}

void decode_plain(const std::byte* payload, size_t lanes, const Unscaling& unscaling,
                  float* destination) {
  HWY_DYNAMIC_DISPATCH(decode_plain_kernel)(payload, lanes, unscaling, destination);
}

}  // namespace sumcast::numeric
#endif  // HWY_ONCE
