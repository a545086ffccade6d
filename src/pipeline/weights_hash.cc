#include "pipeline/weights_hash.h"

#include <bit>

#include "base/prng.h"

namespace sumcast::pipeline {

uint64_t hash_of_bits(std::span<const float> values) {
  // Each word enters a SplitMix64 step whose state carries all words before it.
  uint64_t hash = values.size();
  for (const float value : values) {
    hash = Prng(hash ^ std::bit_cast<uint32_t>(value)).next_u64();
  }
  return hash;
}

std::array<double, kWitnesses> witnesses_of(uint64_t hash) {
  std::array<double, kWitnesses> witnesses{};
  for (size_t i = 0; i < kWitnesses / 2; ++i) {
    const auto piece = static_cast<double>((hash >> (16 * i)) & 0xFFFF);
    witnesses[2 * i] = piece;
    witnesses[2 * i + 1] = piece * piece;
  }
  return witnesses;
}

bool witnesses_agree(std::span<const double, kWitnesses> sums, uint32_t ranks) {
  for (size_t i = 0; i < kWitnesses; i += 2) {
    const auto sum = static_cast<unsigned __int128>(sums[i]);
    const auto squares = static_cast<unsigned __int128>(sums[i + 1]);
    if (sum * sum != squares * ranks) return false;
  }
  return true;
}

}  // namespace sumcast::pipeline
