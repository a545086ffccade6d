// A job whose ranks are threads of this process: thousands of small operations in seconds.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "acceptance/tensor.h"
#include "sumcast/sumcast.hpp"

namespace sumcast::acceptance {

/// The algorithms of the matrix: canonical ones, then the baselines.
inline constexpr Algorithm kAlgorithms[] = {Algorithm::kInNetwork, Algorithm::kDirect,
                                            Algorithm::kRing, Algorithm::kHalvingDoubling};
/// Sums of these are canonical (docs/numerics.md N1); the others want Values::kExact.
constexpr bool is_canonical(Algorithm algorithm) {
  return algorithm != Algorithm::kRing && algorithm != Algorithm::kHalvingDoubling;
}
/// For test names: letters only.
std::string test_name_of(Algorithm algorithm);

/// Runs `body(context)` on every rank of a fresh job; with a daemon if the algorithm wants one.
void with_world(uint32_t world, Algorithm algorithm, const std::function<void(Context&)>& body);

}  // namespace sumcast::acceptance
