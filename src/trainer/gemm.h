// Products of dense matrices: all of the model's heavy arithmetic.
//
// Eigen does the work, single-threaded. Eigen picks its instructions when it is compiled, and the
// packages are built for plain x86-64, where a product runs at about a quarter of the speed that
// AVX2 and FMA allow. So the same small file is compiled twice (gemm_eigen.inc, once by
// gemm_baseline.cc and once by gemm_v3.cc with -mavx2 -mfma) and one is chosen at run time. The
// twins give results that differ in the last bits; all processes on one kind of CPU choose alike,
// and each is deterministic: the same inputs give the same bits.
#pragma once

#include <cstdint>

namespace sumcast::trainer {

/// Sizes of a product: the result is f32[m, n], and k is summed over.
struct ProductSizes {
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
};

/// Overwrites `c`: f32[m, n]. All matrices are row-major, dense, and do not overlap.
using Product = void (*)(ProductSizes sizes, const float* a, const float* b, float* c);

struct Gemm {
  const char* name;  ///< The instruction set, for people: "x86-64" or "x86-64-v3".
  Product ab;        ///< c = a b,   a: f32[m, k], b: f32[k, n].
  Product atb;       ///< c = a' b,  a: f32[k, m], b: f32[k, n].
  Product abt;       ///< c = a b',  a: f32[m, k], b: f32[n, k].
};

/// For any CPU that this program runs on.
const Gemm& baseline_gemm();
/// For CPUs with AVX2 and FMA; null if the build left it out. Calling it elsewhere is a crash.
const Gemm* v3_gemm();
/// The fastest that this CPU can run.
const Gemm& best_gemm();

}  // namespace sumcast::trainer
