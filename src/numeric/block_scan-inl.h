// What a block of f32 needs to be scaled: its largest finite magnitude, and whether NaN or
// infinity occur. Compiled once per SIMD target.
//
// Magnitudes are compared as integers, whose order is that of the floats: no NaN can hide a value
// that follows it, which is how a float maximum loses both.
#if defined(SUMCAST_NUMERIC_BLOCK_SCAN_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SUMCAST_NUMERIC_BLOCK_SCAN_INL_H_
#undef SUMCAST_NUMERIC_BLOCK_SCAN_INL_H_
#else
#define SUMCAST_NUMERIC_BLOCK_SCAN_INL_H_
#endif

#include "numeric/element_traits.h"
#include "numeric/fold_loop-inl.h"
#include "numeric/simd_targets.h"

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace sumcast::numeric {
namespace HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR

struct BlockScan {
  uint32_t max_finite_bits = 0;  ///< Bits of the largest finite |x|; 0 if there is none.
  bool has_nonfinite = false;
};

HWY_INLINE BlockScan scan_block(const float* source, size_t lanes) {
  const hn::ScalableTag<int32_t> d;
  using Vector = hn::Vec<decltype(d)>;
  const std::byte* bytes = reinterpret_cast<const std::byte*>(source);
  const size_t step = hn::Lanes(d);
  const Vector mask = hn::Set(d, static_cast<int32_t>(kMagnitudeMaskF32));
  const Vector last_finite = hn::Set(d, static_cast<int32_t>(kMaxFiniteBitsF32));
  Vector max_any = hn::Zero(d);
  Vector max_finite = hn::Zero(d);
  Stage stage;
  for (size_t i = 0; i < lanes; i += step) {
    const std::byte* place = bytes + 4 * i;
    if (lanes - i < step) {
      std::memcpy(stage.bytes, place, 4 * (lanes - i));
      place = stage.bytes;
    }
    const Vector magnitude = hn::And(load(d, place), mask);
    max_any = hn::Max(max_any, magnitude);
    max_finite = hn::Max(max_finite, hn::IfThenZeroElse(hn::Gt(magnitude, last_finite), magnitude));
  }
  const int32_t any = hn::GetLane(hn::MaxOfLanes(d, max_any));
  const int32_t finite = hn::GetLane(hn::MaxOfLanes(d, max_finite));
  return {static_cast<uint32_t>(finite), any > static_cast<int32_t>(kMaxFiniteBitsF32)};
}

#endif  // HWY_TARGET != HWY_SCALAR

}  // namespace HWY_NAMESPACE
}  // namespace sumcast::numeric
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
