#include "trainer/gemm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/prng.h"

namespace sumcast::trainer {
namespace {

std::vector<float> random_matrix(int64_t elements, uint64_t seed) {
  Prng prng(seed);
  std::vector<float> matrix(static_cast<size_t>(elements));
  for (float& element : matrix) element = static_cast<float>(prng.unit() - 0.5);
  return matrix;
}

/// Checks c against sums in double over a(i, p) * b(p, j).
void expect_product(ProductSizes s, const std::vector<float>& c, auto a, auto b) {
  for (int64_t i = 0; i < s.m; ++i) {
    for (int64_t j = 0; j < s.n; ++j) {
      double sum = 0.0;
      for (int64_t p = 0; p < s.k; ++p) sum += double{a(i, p)} * double{b(p, j)};
      ASSERT_NEAR(c[static_cast<size_t>(i * s.n + j)], sum, 1e-5 * std::sqrt(s.k) + 1e-6)
          << i << "," << j << " of " << s.m << "x" << s.n << "x" << s.k;
    }
  }
}

void check_all_products(const Gemm& gemm, ProductSizes s) {
  const auto a = random_matrix(s.m * s.k, 1);
  const auto b = random_matrix(s.k * s.n, 2);
  std::vector<float> c(static_cast<size_t>(s.m * s.n), NAN);
  gemm.ab(s, a.data(), b.data(), c.data());
  const auto at = [](const std::vector<float>& matrix, int64_t columns) {
    return [&matrix, columns](int64_t row, int64_t column) {
      return matrix[static_cast<size_t>(row * columns + column)];
    };
  };
  const auto flipped = [](auto element) {
    return [element](int64_t row, int64_t column) { return element(column, row); };
  };
  expect_product(s, c, at(a, s.k), at(b, s.n));
  c.assign(c.size(), NAN);
  gemm.atb(s, a.data(), b.data(), c.data());  // The same storage, read as f32[k, m].
  expect_product(s, c, flipped(at(a, s.m)), at(b, s.n));
  c.assign(c.size(), NAN);
  gemm.abt(s, a.data(), b.data(), c.data());  // And as f32[n, k].
  expect_product(s, c, at(a, s.k), flipped(at(b, s.k)));
}

constexpr ProductSizes kSizes[] = {
    {1, 1, 1}, {2, 3, 5}, {17, 10, 33}, {128, 10, 64}, {31, 65, 129}};

TEST(Gemm, MultipliesInAllThreeOrientations) {
  for (const ProductSizes& sizes : kSizes) check_all_products(baseline_gemm(), sizes);
}

TEST(Gemm, MultipliesTheSameWithTheInstructionsChosenForThisCpu) {
  for (const ProductSizes& sizes : kSizes) check_all_products(best_gemm(), sizes);
}

TEST(Gemm, GivesTheSameBitsEachTime) {
  const ProductSizes sizes{64, 48, 300};
  const auto a = random_matrix(sizes.m * sizes.k, 3);
  const auto b = random_matrix(sizes.k * sizes.n, 4);
  std::vector<float> first(static_cast<size_t>(sizes.m * sizes.n));
  best_gemm().ab(sizes, a.data(), b.data(), first.data());
  // Copies at other alignments, as another process might have them.
  std::vector<float> a_moved(a.size() + 3), b_moved(b.size() + 5), c_moved(first.size() + 7);
  std::copy(a.begin(), a.end(), a_moved.begin() + 3);
  std::copy(b.begin(), b.end(), b_moved.begin() + 5);
  best_gemm().ab(sizes, a_moved.data() + 3, b_moved.data() + 5, c_moved.data() + 7);
  for (size_t i = 0; i < first.size(); ++i) ASSERT_EQ(first[i], c_moved[i + 7]) << i;
}

}  // namespace
}  // namespace sumcast::trainer
