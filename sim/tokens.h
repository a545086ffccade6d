// What stands for lanes in a simulation: a number that names who contributed what.
//
// A contribution carries token(operation, shard, chunk, member); an aggregator "adds" by folding
// the tokens in member order. The fold is not commutative and has no neutral element, so that a
// contribution that is missing, counted twice, in the wrong order or of another chunk changes it.
// expected_sum() is the scalar reference that every delivered result is compared with.
#pragma once

#include <cstdint>
#include <span>

namespace sumcast::sim {

/// The bijective mixer of SplitMix64.
constexpr uint64_t mix(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

constexpr uint64_t token(uint32_t operation, uint16_t shard, uint32_t chunk, uint16_t member) {
  return mix((uint64_t{operation} << 32 | chunk) * 3u + mix(uint64_t{shard} << 16 | member));
}

constexpr uint64_t fold_step(uint64_t sum, uint64_t payload) {
  return mix(sum + 0x9E3779B97F4A7C15u) ^ payload;
}
constexpr uint64_t fold(std::span<const uint64_t> payloads) {
  uint64_t sum = 0;
  for (const uint64_t payload : payloads) sum = fold_step(sum, payload);
  return sum;
}

/// What every member must receive for a chunk.
constexpr uint64_t expected_sum(uint32_t operation, uint16_t shard, uint32_t chunk,
                                uint16_t members) {
  uint64_t sum = 0;
  for (uint16_t member = 0; member < members; ++member) {
    sum = fold_step(sum, token(operation, shard, chunk, member));
  }
  return sum;
}

}  // namespace sumcast::sim
