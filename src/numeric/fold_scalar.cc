#include "numeric/fold_scalar.h"

#include "base/assert.h"
#include "numeric/element_traits.h"

namespace sumcast::numeric::scalar {
namespace {

// A lane says how its element is read, combined and written; `Value` is the accumulator.

template <typename Value>
Value combine_floats(Reduction reduction, Value a, Value b) {
  switch (reduction) {
    case Reduction::kProduct:
      return a * b;
    case Reduction::kMin:
      return float_min(a, b);
    case Reduction::kMax:
      return float_max(a, b);
    default:
      return a + b;
  }
}

struct F32Lane {
  using Value = float;
  static constexpr size_t kBytes = 4;
  static float read(const std::byte* place) { return load_unaligned<float>(place); }
  static void write(std::byte* place, float value) { store_unaligned(place, canonical(value)); }
  static float combine(Reduction reduction, float a, float b) {
    return combine_floats(reduction, a, b);
  }
  static float divide(float sum, uint32_t size) { return sum / static_cast<float>(size); }
};

struct F16Lane : F32Lane {
  static constexpr size_t kBytes = 2;
  static float read(const std::byte* place) {
    return f32_from_f16(load_unaligned<uint16_t>(place));
  }
  static void write(std::byte* place, float value) { store_unaligned(place, f16_from_f32(value)); }
};

struct BF16Lane : F32Lane {
  static constexpr size_t kBytes = 2;
  static float read(const std::byte* place) {
    return f32_from_bf16(load_unaligned<uint16_t>(place));
  }
  static void write(std::byte* place, float value) { store_unaligned(place, bf16_from_f32(value)); }
};

struct F64Lane {
  using Value = double;
  static constexpr size_t kBytes = 8;
  static double read(const std::byte* place) { return load_unaligned<double>(place); }
  static void write(std::byte* place, double value) { store_unaligned(place, canonical(value)); }
  static double combine(Reduction reduction, double a, double b) {
    return combine_floats(reduction, a, b);
  }
  static double divide(double sum, uint32_t size) { return sum / size; }
};

template <typename Integer>
struct IntegerLane {
  using Value = Integer;
  static constexpr size_t kBytes = sizeof(Integer);
  static Integer read(const std::byte* place) { return load_unaligned<Integer>(place); }
  static void write(std::byte* place, Integer value) { store_unaligned(place, value); }
  static Integer combine(Reduction reduction, Integer a, Integer b) {
    // Unsigned 64-bit arithmetic, then truncation: wraps modulo 2^n without undefined behaviour.
    const uint64_t wide_a = static_cast<uint64_t>(a);
    const uint64_t wide_b = static_cast<uint64_t>(b);
    switch (reduction) {
      case Reduction::kProduct:
        return static_cast<Integer>(wide_a * wide_b);
      case Reduction::kMin:
        return a < b ? a : b;
      case Reduction::kMax:
        return a > b ? a : b;
      case Reduction::kAnd:
        return static_cast<Integer>(wide_a & wide_b);
      case Reduction::kOr:
        return static_cast<Integer>(wide_a | wide_b);
      case Reduction::kXor:
        return static_cast<Integer>(wide_a ^ wide_b);
      default:
        return static_cast<Integer>(wide_a + wide_b);
    }
  }
  static Integer divide(Integer sum, uint32_t size) {
    return static_cast<Integer>(static_cast<int64_t>(sum) / static_cast<int64_t>(size));
  }
};

struct BoolLane {
  using Value = uint8_t;
  static constexpr size_t kBytes = 1;
  static uint8_t read(const std::byte* place) { return *place != std::byte{0} ? 1 : 0; }
  static void write(std::byte* place, uint8_t value) { *place = std::byte{value}; }
  static uint8_t combine(Reduction reduction, uint8_t a, uint8_t b) {
    switch (reduction) {
      case Reduction::kXor:
        return a ^ b;
      case Reduction::kProduct:
      case Reduction::kAnd:
      case Reduction::kMin:
      case Reduction::kAvg:
        return a & b;
      default:
        return a | b;
    }
  }
  static uint8_t divide(uint8_t all, uint32_t) { return all; }
};

template <typename Lane>
void fold_lanes(Reduction reduction, const std::byte* const* sources, size_t source_count,
                size_t lanes, uint32_t group_size, std::byte* out) {
  for (size_t offset = 0; offset < lanes * Lane::kBytes; offset += Lane::kBytes) {
    typename Lane::Value value = Lane::read(sources[0] + offset);
    for (size_t k = 1; k < source_count; ++k) {
      value = Lane::combine(reduction, value, Lane::read(sources[k] + offset));
    }
    if (reduction == Reduction::kAvg) value = Lane::divide(value, group_size);
    Lane::write(out + offset, value);
  }
}

}  // namespace

void fold(ElementType type, Reduction reduction, const std::byte* const* sources,
          size_t source_count, size_t lanes, uint32_t group_size, std::byte* out) {
  SUMCAST_ASSERT(reduction_applies(type, reduction));
  SUMCAST_ASSERT(source_count >= 1);
  SUMCAST_ASSERT(reduction != Reduction::kAvg || group_size >= 1);
  if (reduction == Reduction::kCopy) {
    SUMCAST_ASSERT(source_count == 1);
    if (lanes > 0) std::memmove(out, sources[0], lanes * element_bytes(type));
    return;
  }
  switch (type) {
    case ElementType::kI8:
      return fold_lanes<IntegerLane<int8_t>>(reduction, sources, source_count, lanes, group_size,
                                             out);
    case ElementType::kU8:
      return fold_lanes<IntegerLane<uint8_t>>(reduction, sources, source_count, lanes, group_size,
                                              out);
    case ElementType::kI16:
      return fold_lanes<IntegerLane<int16_t>>(reduction, sources, source_count, lanes, group_size,
                                              out);
    case ElementType::kI32:
      return fold_lanes<IntegerLane<int32_t>>(reduction, sources, source_count, lanes, group_size,
                                              out);
    case ElementType::kI64:
      return fold_lanes<IntegerLane<int64_t>>(reduction, sources, source_count, lanes, group_size,
                                              out);
    case ElementType::kF16:
      return fold_lanes<F16Lane>(reduction, sources, source_count, lanes, group_size, out);
    case ElementType::kBF16:
      return fold_lanes<BF16Lane>(reduction, sources, source_count, lanes, group_size, out);
    case ElementType::kF32:
      return fold_lanes<F32Lane>(reduction, sources, source_count, lanes, group_size, out);
    case ElementType::kF64:
      return fold_lanes<F64Lane>(reduction, sources, source_count, lanes, group_size, out);
    case ElementType::kBool:
      return fold_lanes<BoolLane>(reduction, sources, source_count, lanes, group_size, out);
  }
}

}  // namespace sumcast::numeric::scalar
