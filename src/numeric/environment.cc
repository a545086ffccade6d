#include "numeric/environment.h"

#include <bit>
#include <cstdint>

namespace sumcast::numeric {

bool float_environment_is_default() {
  // Volatile, so that the CPU computes these now and not the compiler beforehand.
  const volatile float smallest_normal = 0x1p-126f;
  const volatile float denormal = 0x1p-149f;
  const volatile float one = 1.0f;
  const volatile float half_ulp = 0x1p-24f;
  const volatile float above_half_ulp = 0x1.8p-24f;
  const volatile float half = 0.5f;

  const volatile float halved = smallest_normal * half;  // 0 if results are flushed.
  const volatile float doubled = denormal + denormal;    // 0 if operands are flushed.
  const volatile float tie = one + half_ulp;             // 1 by ties to even; more if upward.
  const volatile float up = one + above_half_ulp;       // The next float; 1 if toward zero or down.
  const volatile float negative_tie = -one - half_ulp;  // -1; less if downward.
  // Bits are compared, because a comparison of floats takes denormals for zero in such a mode.
  const auto bits = [](float value) { return std::bit_cast<uint32_t>(value); };
  return bits(halved) == 0x00400000u && bits(doubled) == 0x00000002u && bits(tie) == 0x3F800000u &&
         bits(up) == 0x3F800001u && bits(negative_tie) == 0xBF800000u;
}

}  // namespace sumcast::numeric
