#include "pipeline/values.h"

#include <gtest/gtest.h>

#include <vector>

namespace sumcast::pipeline {
namespace {

TEST(FiniteOrZero, KeepsNumbersAndNothingElse) {
  constexpr float kMax = std::numeric_limits<float>::max();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const float value : {0.0f, -1.5f, kMax, -kMax, 1e-45f}) {
    EXPECT_EQ(finite_or_zero(value), value);
  }
  for (const float value : {kInfinity, -kInfinity, std::nanf("")}) {
    EXPECT_EQ(finite_or_zero(value), 0.0f);
  }
}

TEST(Dot, AddsAllProductsOfAnyCount) {
  for (size_t count = 0; count < 40; ++count) {
    std::vector<float> a(count), b(count);
    double expected = 0;
    for (size_t i = 0; i < count; ++i) {
      a[i] = static_cast<float>(i + 1);
      b[i] = static_cast<float>(2 * i) - 7;
      expected += double{a[i]} * double{b[i]};  // Whole numbers: exact in any order.
    }
    EXPECT_EQ(dot(a.data(), b.data(), count), expected) << count;
  }
}

TEST(Dot, IsNotFiniteIfAValueIsNot) {
  for (const size_t at : {0u, 9u, 19u}) {
    std::vector<float> a(20, 1.0f);
    a[at] = std::nanf("");
    EXPECT_FALSE(std::isfinite(dot(a.data(), a.data(), a.size())));
    a[at] = std::numeric_limits<float>::infinity();
    EXPECT_FALSE(std::isfinite(dot(a.data(), a.data(), a.size())));
  }
}

}  // namespace
}  // namespace sumcast::pipeline
