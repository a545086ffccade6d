// Folds of f16, bf16, f32 and f64 for every SIMD target.
//
// A fold is a format (how lanes lie in memory) times a reduction (what is done with them). All
// accumulate in f32, f64 in f64. Minimum and maximum work on integers: flipping the magnitude bits
// of negative floats makes their bits, read as a signed integer, grow with the value, -0 just
// below +0; a NaN is moved to the end that wins. That makes both commutative for every input,
// which the CPU's own instructions are not.
#include <cstdint>

#include "numeric/fold_kernels.h"
#include "numeric/fold_scalar.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "numeric/fold_float.cc"
#include "numeric/simd_targets.h"

#include "hwy/foreach_target.h"

#include "hwy/highway.h"

#include "numeric/fold_loop-inl.h"
#include "numeric/half-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sumcast::numeric {
namespace HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR

using F32 = hn::ScalableTag<float>;
using F64 = hn::ScalableTag<double>;

// Formats: `Tag` is the accumulator, `kLaneBytes` the size of an element in memory.

template <class D, class Bits>
HWY_INLINE hn::Vec<D> with_canonical_nan(D d, hn::Vec<D> value, Bits nan) {
  return hn::IfThenElse(hn::IsNaN(value), hn::BitCast(d, hn::Set(hn::RebindToUnsigned<D>(), nan)),
                        value);
}

struct F32Format {
  using Tag = F32;
  static constexpr size_t kLaneBytes = 4;
  static HWY_INLINE hn::Vec<F32> read(const std::byte* place) { return load(F32(), place); }
  static HWY_INLINE void write(hn::Vec<F32> value, std::byte* place) {
    store(F32(), with_canonical_nan(F32(), value, kCanonicalNanF32), place);
  }
};

struct F64Format {
  using Tag = F64;
  static constexpr size_t kLaneBytes = 8;
  static HWY_INLINE hn::Vec<F64> read(const std::byte* place) { return load(F64(), place); }
  static HWY_INLINE void write(hn::Vec<F64> value, std::byte* place) {
    store(F64(), with_canonical_nan(F64(), value, kCanonicalNanF64), place);
  }
};

struct F16Format {
  using Tag = F32;
  static constexpr size_t kLaneBytes = 2;
  static HWY_INLINE hn::Vec<F32> read(const std::byte* place) { return load_f16(F32(), place); }
  static HWY_INLINE void write(hn::Vec<F32> value, std::byte* place) {
    store_f16(F32(), value, place);
  }
};

struct BF16Format {
  using Tag = F32;
  static constexpr size_t kLaneBytes = 2;
  static HWY_INLINE hn::Vec<F32> read(const std::byte* place) { return load_bf16(F32(), place); }
  static HWY_INLINE void write(hn::Vec<F32> value, std::byte* place) {
    store_bf16(F32(), value, place);
  }
};

// Operations, as fold_loop-inl.h wants them.

template <class Format>
struct FloatOp {
  using Tag = typename Format::Tag;
  using Vector = hn::Vec<Tag>;
  static constexpr size_t kLaneBytes = Format::kLaneBytes;
  static HWY_INLINE size_t step_bytes() { return hn::Lanes(Tag()) * kLaneBytes; }
  static HWY_INLINE Vector load(const std::byte* place) { return Format::read(place); }
  static HWY_INLINE void store(Vector value, std::byte* place) { Format::write(value, place); }
};

template <class Format>
struct SumOp : FloatOp<Format> {
  using typename FloatOp<Format>::Vector;
  static HWY_INLINE Vector combine(Vector a, Vector b) { return hn::Add(a, b); }
};

template <class Format>
struct AverageOp : SumOp<Format> {
  using typename SumOp<Format>::Tag;
  using typename SumOp<Format>::Vector;
  uint32_t group_size;
  HWY_INLINE void store(Vector sum, std::byte* place) const {
    const auto divisor = hn::Set(Tag(), static_cast<hn::TFromD<Tag>>(group_size));
    Format::write(hn::Div(sum, divisor), place);
  }
};

template <class Format>
struct ProductOp : FloatOp<Format> {
  using typename FloatOp<Format>::Vector;
  static HWY_INLINE Vector combine(Vector a, Vector b) { return hn::Mul(a, b); }
};

template <class Format, bool kMax>
struct ExtremumOp : FloatOp<Format> {
  using typename FloatOp<Format>::Tag;
  using typename FloatOp<Format>::Vector;
  using Integers = hn::RebindToSigned<Tag>;
  using Integer = hn::TFromD<Integers>;

  // Its own inverse.
  static HWY_INLINE hn::Vec<Integers> flip_negatives(hn::Vec<Integers> bits) {
    const auto magnitude = hn::Set(Integers(), hwy::LimitsMax<Integer>());
    return hn::Xor(bits, hn::And(hn::BroadcastSignBit(bits), magnitude));
  }
  static HWY_INLINE hn::Vec<Integers> load(const std::byte* place) {
    const Vector value = Format::read(place);
    const auto winner = kMax ? hwy::LimitsMax<Integer>() : hwy::LimitsMin<Integer>();
    return hn::IfThenElse(hn::RebindMask(Integers(), hn::IsNaN(value)), hn::Set(Integers(), winner),
                          flip_negatives(hn::BitCast(Integers(), value)));
  }
  static HWY_INLINE hn::Vec<Integers> combine(hn::Vec<Integers> a, hn::Vec<Integers> b) {
    if constexpr (kMax) return hn::Max(a, b);
    return hn::Min(a, b);
  }
  static HWY_INLINE void store(hn::Vec<Integers> key, std::byte* place) {
    Format::write(hn::BitCast(Tag(), flip_negatives(key)), place);
  }
};

template <class Format>
void fold_format(Reduction reduction, const FoldArguments& arguments) {
  switch (reduction) {
    case Reduction::kAvg: {
      AverageOp<Format> op;
      op.group_size = arguments.group_size;
      return fold_with(op, arguments);
    }
    case Reduction::kMin:
      return fold_with(ExtremumOp<Format, false>(), arguments);
    case Reduction::kMax:
      return fold_with(ExtremumOp<Format, true>(), arguments);
    case Reduction::kProduct:
      return fold_with(ProductOp<Format>(), arguments);
    default:
      return fold_with(SumOp<Format>(), arguments);
  }
}

#endif  // HWY_TARGET != HWY_SCALAR

void fold_floats_kernel(ElementType type, Reduction reduction, const FoldArguments& arguments) {
#if HWY_TARGET == HWY_SCALAR
  scalar::fold(type, reduction, arguments.sources, arguments.source_count, arguments.lanes,
               arguments.group_size, arguments.out);
#else
  switch (type) {
    case ElementType::kF16:
      return fold_format<F16Format>(reduction, arguments);
    case ElementType::kBF16:
      return fold_format<BF16Format>(reduction, arguments);
    case ElementType::kF64:
      return fold_format<F64Format>(reduction, arguments);
    default:
      return fold_format<F32Format>(reduction, arguments);
  }
#endif
}

}  // namespace HWY_NAMESPACE
}  // namespace sumcast::numeric
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sumcast::numeric {

HWY_EXPORT(fold_floats_kernel);

void fold_floats(ElementType type, Reduction reduction, const FoldArguments& arguments) {
  HWY_DYNAMIC_DISPATCH(fold_floats_kernel)(type, reduction, arguments);
}

}  // namespace sumcast::numeric
#endif  // HWY_ONCE
