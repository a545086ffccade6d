// Products with AVX2 and FMA. The build compiles this file with -mavx2 -mfma; where it does not
// (another compiler, another architecture) the file is empty but for saying so.
#if defined(__AVX2__) && defined(__FMA__)

#define Eigen sumcast_eigen_v3
#include "trainer/gemm_eigen.inc"

namespace sumcast::trainer {

const Gemm* v3_gemm() {
  static constexpr Gemm kGemm{"x86-64-v3", product_ab, product_atb, product_abt};
  return &kGemm;
}

}  // namespace sumcast::trainer

#else

#include "trainer/gemm.h"

namespace sumcast::trainer {

const Gemm* v3_gemm() { return nullptr; }

}  // namespace sumcast::trainer

#endif
