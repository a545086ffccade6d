// Products with the instructions that the whole program is compiled for.
#define Eigen sumcast_eigen_baseline
#include "trainer/gemm_eigen.inc"

namespace sumcast::trainer {

const Gemm& baseline_gemm() {
  static constexpr Gemm kGemm{"x86-64", product_ab, product_atb, product_abt};
  return kGemm;
}

}  // namespace sumcast::trainer
