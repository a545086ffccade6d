#include "numeric/triad.h"

#include <cstddef>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "numeric/triad.cc"
#include "numeric/simd_targets.h"

#include "hwy/foreach_target.h"

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace sumcast::numeric {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

void triad_kernel(const float* a, const float* b, float scale, float* out, size_t lanes) {
  const hn::ScalableTag<float> d;
  const size_t step = hn::Lanes(d);
  const auto factor = hn::Set(d, scale);
  size_t i = 0;
  for (; i + 4 * step <= lanes; i += 4 * step) {
    for (size_t j = i; j < i + 4 * step; j += step) {
      hn::StoreU(hn::MulAdd(factor, hn::LoadU(d, b + j), hn::LoadU(d, a + j)), d, out + j);
    }
  }
  for (; i < lanes; ++i) out[i] = a[i] + scale * b[i];
}

}  // namespace HWY_NAMESPACE
}  // namespace sumcast::numeric
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sumcast::numeric {

HWY_EXPORT(triad_kernel);

void triad(const float* a, const float* b, float scale, float* out, size_t lanes) {
  HWY_DYNAMIC_DISPATCH(triad_kernel)(a, b, scale, out, lanes);
}

}  // namespace sumcast::numeric
#endif  // HWY_ONCE
