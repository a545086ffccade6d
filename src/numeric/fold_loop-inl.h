// The one loop of all folds, and how lanes that do not fill a vector are read and written.
//
// Compiled once per SIMD target (hence no #pragma once). The loop knows bytes, not types: an
// operation `Op` says how one vector of lanes is loaded (converted, normalised), combined and
// stored. Four vectors are in flight at once, so that the latency of an addition is hidden and a
// source's pointer is fetched once per four vectors; that also makes any number of sources good.
#if defined(SUMCAST_NUMERIC_FOLD_LOOP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SUMCAST_NUMERIC_FOLD_LOOP_INL_H_
#undef SUMCAST_NUMERIC_FOLD_LOOP_INL_H_
#else
#define SUMCAST_NUMERIC_FOLD_LOOP_INL_H_
#endif

#include <cstddef>
#include <cstring>

#include "numeric/fold_kernels.h"
#include "numeric/simd_targets.h"

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace sumcast::numeric {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET != HWY_SCALAR

template <class D>
HWY_INLINE hn::Vec<D> load(D d, const std::byte* place) {
  return hn::LoadU(d, reinterpret_cast<const hn::TFromD<D>*>(place));
}

template <class D>
HWY_INLINE void store(D d, hn::Vec<D> vector, std::byte* place) {
  hn::StoreU(vector, d, reinterpret_cast<hn::TFromD<D>*>(place));
}

/// One vector's worth of memory: stands in for the end of a tensor that is no whole vector.
/// Lanes past the end are zero bytes, which every operation takes.
struct Stage {
  HWY_ALIGN std::byte bytes[HWY_MAX_BYTES] = {};
};

/// Folds the last `bytes` bytes, less than one vector, starting at byte `offset`.
template <class Op>
HWY_NOINLINE void fold_rest(const Op& op, const FoldArguments& arguments, size_t offset,
                            size_t bytes) {
  Stage stage;
  std::memcpy(stage.bytes, arguments.sources[0] + offset, bytes);
  auto value = op.load(stage.bytes);
  for (size_t k = 1; k < arguments.source_count; ++k) {
    std::memcpy(stage.bytes, arguments.sources[k] + offset, bytes);
    value = op.combine(value, op.load(stage.bytes));
  }
  op.store(value, stage.bytes);
  std::memcpy(arguments.out + offset, stage.bytes, bytes);
}

template <class Op>
HWY_NOINLINE void fold_with(const Op& op, const FoldArguments& arguments) {
  const size_t step = op.step_bytes();
  const size_t bytes = arguments.lanes * Op::kLaneBytes;
  size_t i = 0;
  for (; i + 4 * step <= bytes; i += 4 * step) {
    const std::byte* source = arguments.sources[0] + i;
    auto a = op.load(source);
    auto b = op.load(source + step);
    auto c = op.load(source + 2 * step);
    auto d = op.load(source + 3 * step);
    for (size_t k = 1; k < arguments.source_count; ++k) {
      source = arguments.sources[k] + i;
      a = op.combine(a, op.load(source));
      b = op.combine(b, op.load(source + step));
      c = op.combine(c, op.load(source + 2 * step));
      d = op.combine(d, op.load(source + 3 * step));
    }
    op.store(a, arguments.out + i);
    op.store(b, arguments.out + i + step);
    op.store(c, arguments.out + i + 2 * step);
    op.store(d, arguments.out + i + 3 * step);
  }
  for (; i + step <= bytes; i += step) {
    auto a = op.load(arguments.sources[0] + i);
    for (size_t k = 1; k < arguments.source_count; ++k) {
      a = op.combine(a, op.load(arguments.sources[k] + i));
    }
    op.store(a, arguments.out + i);
  }
  if (i < bytes) fold_rest(op, arguments, i, bytes - i);
}

#endif  // HWY_TARGET != HWY_SCALAR

}  // namespace HWY_NAMESPACE
}  // namespace sumcast::numeric
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
