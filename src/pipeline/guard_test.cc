#include "pipeline/guard.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/prng.h"

namespace sumcast::pipeline {
namespace {

TEST(Guard, SteadyAndFallingLossesAreLeftAlone) {
  Guard guard(GuardOptions{});
  Prng prng(4);
  for (int step = 0; step < 1000; ++step) {
    const double loss = 0.3 + 2.0 / (1 + step * 0.05) + 0.1 * prng.unit();
    EXPECT_FALSE(guard.observe({loss, 0.1 * (prng.unit() - 0.5)}).has_value()) << step;
  }
}

TEST(Guard, ARisingLossTurningGradientsAndNonNumbersAreNot) {
  const GuardOptions options;
  const auto steps_until = [&](const auto& at) {
    Guard guard(options);
    for (int step = 0; step < 500; ++step) {
      if (guard.observe(at(step)).has_value()) return step;
    }
    return -1;
  };
  const int rising = steps_until([](int s) { return Observation{s < 100 ? 1.0 : 3.0, 0.0}; });
  EXPECT_GT(rising, 100);
  EXPECT_LT(rising, 140);
  const int turning = steps_until([](int) { return Observation{1.0, -0.8}; });
  EXPECT_EQ(turning, static_cast<int>(options.settle + options.patience) - 1);
  EXPECT_EQ(steps_until([](int s) { return Observation{s == 3 ? NAN : 1.0, 0.0}; }), 3);
  EXPECT_EQ(steps_until([](int s) { return Observation{1.0, s == 5 ? NAN : 0.0}; }), 5);
  EXPECT_EQ(steps_until([](int) { return Observation{1.0, 0.0}; }), -1);
}

}  // namespace
}  // namespace sumcast::pipeline
