// Have all ranks the same weights? A hash of their bits, and numbers whose sum over ranks tells.
//
// A rank adds the hash's 16-bit pieces h and their squares to a sum over n ranks. By Cauchy and
// Schwarz n * sum(h^2) = (sum h)^2 exactly if all h are equal; with f64 sums of integers both sides
// are exact for up to 65,536 ranks. So every rank sees a difference, at the same step, without
// knowing whose weights differ.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace sumcast::pipeline {

/// 64 bits that depend on every bit of the weights and their order: equal on all ranks, or a rank
/// has drifted. Not cryptographic.
uint64_t hash_of_bits(std::span<const float> values);

/// Numbers to be summed over ranks.
inline constexpr size_t kWitnesses = 8;
std::array<double, kWitnesses> witnesses_of(uint64_t hash);
/// @param sums  element by element over `ranks` ranks' witnesses.
bool witnesses_agree(std::span<const double, kWitnesses> sums, uint32_t ranks);

}  // namespace sumcast::pipeline
