// Folds of integers and bool for every SIMD target.
//
// Sums and products wrap, so signed and unsigned share a kernel; bitwise reductions do not care
// where an element ends and share one for all types. Averages are sums here: fold.cc divides.
#include <cstdint>

#include "numeric/fold_kernels.h"
#include "numeric/fold_scalar.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "numeric/fold_integer.cc"
#include "numeric/simd_targets.h"

#include "hwy/foreach_target.h"

#include "hwy/highway.h"

#include "numeric/fold_loop-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sumcast::numeric {
namespace HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR

template <typename Integer>
struct IntegerOp {
  using Tag = hn::ScalableTag<Integer>;
  using Vector = hn::Vec<Tag>;
  static constexpr size_t kLaneBytes = sizeof(Integer);
  static HWY_INLINE size_t step_bytes() { return hn::Lanes(Tag()) * kLaneBytes; }
  static HWY_INLINE Vector load(const std::byte* place) {
    return HWY_NAMESPACE::load(Tag(), place);
  }
  static HWY_INLINE void store(Vector value, std::byte* place) {
    HWY_NAMESPACE::store(Tag(), value, place);
  }
};

template <typename Integer>
struct WrappingSumOp : IntegerOp<Integer> {
  using typename IntegerOp<Integer>::Vector;
  static HWY_INLINE Vector combine(Vector a, Vector b) { return hn::Add(a, b); }
};

template <typename Integer>
struct WrappingProductOp : IntegerOp<Integer> {
  using typename IntegerOp<Integer>::Vector;
  static HWY_INLINE Vector combine(Vector a, Vector b) {
    if constexpr (sizeof(Integer) > 1) {
      return hn::Mul(a, b);
    } else {
      // No CPU multiplies bytes. Two 16-bit products do: the low byte of a * b is that of the low
      // bytes; the high one comes from (a >> 8) * (b with its low byte cleared), modulo 2^16.
      const hn::Repartition<uint16_t, typename IntegerOp<Integer>::Tag> wide;
      const auto high = hn::Set(wide, uint16_t{0xFF00});
      const auto a16 = hn::BitCast(wide, a);
      const auto b16 = hn::BitCast(wide, b);
      const auto low_product = hn::AndNot(high, hn::Mul(a16, b16));
      const auto high_product = hn::Mul(hn::ShiftRight<8>(a16), hn::And(b16, high));
      return hn::BitCast(typename IntegerOp<Integer>::Tag(), hn::Or(low_product, high_product));
    }
  }
};

template <typename Integer, bool kMax>
struct IntegerExtremumOp : IntegerOp<Integer> {
  using typename IntegerOp<Integer>::Vector;
  static HWY_INLINE Vector combine(Vector a, Vector b) {
    if constexpr (kMax) return hn::Max(a, b);
    return hn::Min(a, b);
  }
};

template <Reduction kReduction>
struct BitwiseOp : IntegerOp<uint8_t> {
  static HWY_INLINE Vector combine(Vector a, Vector b) {
    if constexpr (kReduction == Reduction::kAnd) return hn::And(a, b);
    if constexpr (kReduction == Reduction::kOr) return hn::Or(a, b);
    return hn::Xor(a, b);
  }
};

// A bool is any byte; each is widened to all ones or all zeros, and leaves as 1 or 0.
template <Reduction kReduction>
struct BoolOp : BitwiseOp<kReduction> {
  using typename IntegerOp<uint8_t>::Tag;
  using typename IntegerOp<uint8_t>::Vector;
  static HWY_INLINE Vector load(const std::byte* place) {
    const Vector value = HWY_NAMESPACE::load(Tag(), place);
    return hn::VecFromMask(Tag(), hn::Ne(value, hn::Zero(Tag())));
  }
  static HWY_INLINE void store(Vector value, std::byte* place) {
    HWY_NAMESPACE::store(Tag(), hn::And(value, hn::Set(Tag(), uint8_t{1})), place);
  }
};

void fold_bools(Reduction reduction, const FoldArguments& arguments) {
  switch (reduction) {
    case Reduction::kXor:
      return fold_with(BoolOp<Reduction::kXor>(), arguments);
    case Reduction::kProduct:
    case Reduction::kAnd:
    case Reduction::kMin:
    case Reduction::kAvg:
      return fold_with(BoolOp<Reduction::kAnd>(), arguments);
    default:
      return fold_with(BoolOp<Reduction::kOr>(), arguments);
  }
}

void fold_bits(Reduction reduction, size_t element_bytes, const FoldArguments& arguments) {
  FoldArguments bytes = arguments;
  bytes.lanes = arguments.lanes * element_bytes;
  switch (reduction) {
    case Reduction::kAnd:
      return fold_with(BitwiseOp<Reduction::kAnd>(), bytes);
    case Reduction::kOr:
      return fold_with(BitwiseOp<Reduction::kOr>(), bytes);
    default:
      return fold_with(BitwiseOp<Reduction::kXor>(), bytes);
  }
}

template <typename Integer>
void fold_type(Reduction reduction, const FoldArguments& arguments) {
  using Unsigned = hwy::MakeUnsigned<Integer>;
  switch (reduction) {
    case Reduction::kMin:
      return fold_with(IntegerExtremumOp<Integer, false>(), arguments);
    case Reduction::kMax:
      return fold_with(IntegerExtremumOp<Integer, true>(), arguments);
    case Reduction::kProduct:
      return fold_with(WrappingProductOp<Unsigned>(), arguments);
    case Reduction::kAnd:
    case Reduction::kOr:
    case Reduction::kXor:
      return fold_bits(reduction, sizeof(Integer), arguments);
    default:
      return fold_with(WrappingSumOp<Unsigned>(), arguments);
  }
}

#endif  // HWY_TARGET != HWY_SCALAR

void fold_integers_kernel(ElementType type, Reduction reduction, const FoldArguments& arguments) {
#if HWY_TARGET == HWY_SCALAR
  const bool undivided = reduction == Reduction::kAvg && type != ElementType::kBool;
  scalar::fold(type, undivided ? Reduction::kSum : reduction, arguments.sources,
               arguments.source_count, arguments.lanes, arguments.group_size, arguments.out);
#else
  switch (type) {
    case ElementType::kI8:
      return fold_type<int8_t>(reduction, arguments);
    case ElementType::kU8:
      return fold_type<uint8_t>(reduction, arguments);
    case ElementType::kI16:
      return fold_type<int16_t>(reduction, arguments);
    case ElementType::kI32:
      return fold_type<int32_t>(reduction, arguments);
    case ElementType::kI64:
      return fold_type<int64_t>(reduction, arguments);
    default:
      return fold_bools(reduction, arguments);
  }
#endif
}

}  // namespace HWY_NAMESPACE
}  // namespace sumcast::numeric
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sumcast::numeric {

HWY_EXPORT(fold_integers_kernel);

void fold_integers(ElementType type, Reduction reduction, const FoldArguments& arguments) {
  HWY_DYNAMIC_DISPATCH(fold_integers_kernel)(type, reduction, arguments);
}

}  // namespace sumcast::numeric
#endif  // HWY_ONCE
