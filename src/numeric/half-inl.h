// Vectors of f32 read from and written to memory that holds f16 or bf16 elements.
//
// Compiled once per SIMD target. Reading is exact; writing rounds to nearest even, keeps denormals
// and makes every NaN the canonical one. bf16 is the upper half of an f32. f16 uses the CPU's own
// conversion where there is one (F16C, always beside AVX2). Elsewhere two facts do the work:
// an f16's bits, shifted into an f32's place, are the value times 2^-112; and adding 0.5, whose
// last place is worth 2^-24, rounds a small number to f16's smallest unit.
#if defined(SUMCAST_NUMERIC_HALF_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SUMCAST_NUMERIC_HALF_INL_H_
#undef SUMCAST_NUMERIC_HALF_INL_H_
#else
#define SUMCAST_NUMERIC_HALF_INL_H_
#endif

#include "numeric/element_traits.h"
#include "numeric/fold_loop-inl.h"
#include "numeric/simd_targets.h"

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace sumcast::numeric {
namespace HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR

// True where highway's f16 conversions are single instructions.
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2 && !defined(HWY_DISABLE_F16C)
#define SUMCAST_NATIVE_F16 1
#else
#define SUMCAST_NATIVE_F16 0
#endif

template <class D>
HWY_INLINE hn::Vec<D> load_bf16(D d, const std::byte* place) {
  const hn::RebindToUnsigned<D> d32;
  const hn::Rebind<uint16_t, D> d16;
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(d32, load(d16, place))));
}

template <class D>
HWY_INLINE void store_bf16(D /*d*/, hn::Vec<D> value, std::byte* place) {
  const hn::RebindToSigned<D> di;
  const hn::RebindToUnsigned<D> du;
  const hn::Rebind<uint16_t, D> d16;
  const auto bits = hn::BitCast(du, value);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1u));
  const auto up = hn::Add(bits, hn::Add(odd, hn::Set(du, 0x7FFFu)));
  const auto rounded =
      hn::IfThenElse(hn::RebindMask(du, hn::IsNaN(value)), hn::Set(du, uint32_t{kCanonicalNanBF16}),
                     hn::ShiftRight<16>(up));
  store(d16, hn::DemoteTo(d16, hn::BitCast(di, rounded)), place);
}

template <class D>
HWY_INLINE hn::Vec<D> load_f16(D d, const std::byte* place) {
#if SUMCAST_NATIVE_F16
  const hn::Rebind<hwy::float16_t, D> d16;
  return hn::PromoteTo(d, hn::LoadU(d16, reinterpret_cast<const hwy::float16_t*>(place)));
#else
  const hn::RebindToSigned<D> di;
  const hn::RebindToUnsigned<D> du;
  const hn::Rebind<uint16_t, D> d16;
  const auto bits = hn::PromoteTo(du, load(d16, place));
  const auto sign = hn::ShiftLeft<16>(hn::And(bits, hn::Set(du, 0x8000u)));
  const auto magnitude = hn::And(bits, hn::Set(du, 0x7FFFu));
  const auto scaled = hn::Mul(hn::BitCast(d, hn::ShiftLeft<13>(magnitude)), hn::Set(d, 0x1p112f));
  const auto special = hn::Gt(hn::BitCast(di, magnitude), hn::Set(di, 0x7BFF));
  const auto exponent = hn::IfThenElseZero(special, hn::Set(di, 0x7F800000));
  return hn::BitCast(d, hn::Or(hn::Or(hn::BitCast(du, scaled), sign), hn::BitCast(du, exponent)));
#endif
}

template <class D>
HWY_INLINE void store_f16(D d, hn::Vec<D> value, std::byte* place) {
#if SUMCAST_NATIVE_F16
  const hn::RebindToUnsigned<D> du;
  const hn::Rebind<hwy::float16_t, D> d16;
  const auto nan = hn::BitCast(d, hn::Set(du, kCanonicalNanF32));
  const auto clean = hn::IfThenElse(hn::IsNaN(value), nan, value);
  hn::StoreU(hn::DemoteTo(d16, clean), d16, reinterpret_cast<hwy::float16_t*>(place));
#else
  const hn::RebindToSigned<D> di;
  const hn::Rebind<uint16_t, D> d16;
  const auto bits = hn::BitCast(di, value);
  const auto sign =
      hn::BitCast(di, hn::ShiftRight<16>(hn::BitCast(hn::RebindToUnsigned<D>(),
                                                     hn::And(bits, hn::Set(di, INT32_MIN)))));
  const auto magnitude = hn::And(bits, hn::Set(di, 0x7FFFFFFF));
  // Normal: rebias, then round at bit 13; a carry runs into the exponent, up to infinity.
  const auto rebiased = hn::Sub(magnitude, hn::Set(di, 112 << 23));
  const auto odd = hn::And(hn::ShiftRight<13>(rebiased), hn::Set(di, 1));
  auto rounded = hn::ShiftRight<13>(hn::Add(rebiased, hn::Add(odd, hn::Set(di, 0xFFF))));
  // Below 2^-14: f16's smallest unit is the last place of 0.5.
  const auto half = hn::Set(d, 0.5f);
  const auto tiny =
      hn::Sub(hn::BitCast(di, hn::Add(hn::BitCast(d, magnitude), half)), hn::BitCast(di, half));
  rounded = hn::IfThenElse(hn::Lt(magnitude, hn::Set(di, 113 << 23)), tiny, rounded);
  rounded =
      hn::IfThenElse(hn::Gt(magnitude, hn::Set(di, (143 << 23) - 1)), hn::Set(di, 0x7C00), rounded);
  rounded = hn::IfThenElse(hn::Gt(magnitude, hn::Set(di, 0x7F800000)),
                           hn::Set(di, int32_t{kCanonicalNanF16}), hn::Or(rounded, sign));
  store(d16, hn::DemoteTo(d16, rounded), place);
#endif
}

#undef SUMCAST_NATIVE_F16
#endif  // HWY_TARGET != HWY_SCALAR

}  // namespace HWY_NAMESPACE
}  // namespace sumcast::numeric
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
