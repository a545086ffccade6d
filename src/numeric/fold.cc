#include "numeric/fold.h"

#include <cstring>

#include "base/assert.h"
#include "numeric/element_traits.h"
#include "numeric/fold_kernels.h"

namespace sumcast::numeric {
namespace {

template <typename Integer>
void divide_lanes(size_t lanes, uint32_t divisor, std::byte* out) {
  for (size_t i = 0; i < lanes; ++i) {
    std::byte* place = out + i * sizeof(Integer);
    const int64_t sum = static_cast<int64_t>(load_unaligned<Integer>(place));
    store_unaligned(place, static_cast<Integer>(sum / static_cast<int64_t>(divisor)));
  }
}

// No SIMD target divides integers, and averages of integers are rare: a second pass over a chunk
// that has just been written to the nearest cache costs less than a kernel of its own.
void divide_integers(ElementType type, size_t lanes, uint32_t divisor, std::byte* out) {
  switch (type) {
    case ElementType::kI8:
      return divide_lanes<int8_t>(lanes, divisor, out);
    case ElementType::kU8:
      return divide_lanes<uint8_t>(lanes, divisor, out);
    case ElementType::kI16:
      return divide_lanes<int16_t>(lanes, divisor, out);
    case ElementType::kI32:
      return divide_lanes<int32_t>(lanes, divisor, out);
    case ElementType::kI64:
      return divide_lanes<int64_t>(lanes, divisor, out);
    default:
      return;  // Floats are divided in their kernel; the average of bools is "all".
  }
}

}  // namespace

void fold(ElementType type, Reduction reduction, const std::byte* const* sources,
          size_t source_count, size_t lanes, uint32_t group_size, std::byte* out) {
  SUMCAST_ASSERT(reduction_applies(type, reduction));
  SUMCAST_ASSERT(source_count >= 1);
  if (lanes == 0) return;
  if (reduction == Reduction::kCopy) {
    SUMCAST_ASSERT(source_count == 1);
    if (out != sources[0]) std::memcpy(out, sources[0], lanes * element_bytes(type));
    return;
  }
  if (reduction == Reduction::kAvg) {
    SUMCAST_ASSERT(group_size >= 1);
    SUMCAST_ASSERT(group_size <= kGroupSizeMax);
  }
  const FoldArguments arguments{sources, source_count, lanes, group_size, out};
  if (is_float(type)) {
    fold_floats(type, reduction, arguments);
    return;
  }
  fold_integers(type, reduction, arguments);
  if (reduction == Reduction::kAvg) divide_integers(type, lanes, group_size, out);
}

}  // namespace sumcast::numeric
