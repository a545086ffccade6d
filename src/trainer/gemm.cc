#include "trainer/gemm.h"

namespace sumcast::trainer {

const Gemm& best_gemm() {
#if defined(__x86_64__)
  const bool capable = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (const Gemm* gemm = v3_gemm(); gemm != nullptr && capable) return *gemm;
#endif
  return baseline_gemm();
}

}  // namespace sumcast::trainer
