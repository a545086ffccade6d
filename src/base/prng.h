// A small deterministic generator for the simulator, fault injection and test data. Never for
// keys: those come from OpenSSL (auth/).
#pragma once

#include <cstdint>

namespace sumcast {

/// SplitMix64 (Steele, Lea, Flood 2014): one add and two multiplications a number, any seed.
class Prng {
 public:
  explicit constexpr Prng(uint64_t seed) : state_(seed) {}

  constexpr uint64_t next_u64() {
    state_ += 0x9E3779B97F4A7C15u;
    uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }
  constexpr uint32_t next_u32() { return static_cast<uint32_t>(next_u64() >> 32); }
  /// Uniform in [0, bound); `bound` > 0. Bias below 2^-32 for bounds below 2^32.
  constexpr uint64_t below(uint64_t bound) {
    return static_cast<uint64_t>((static_cast<unsigned __int128>(next_u64()) * bound) >> 64);
  }
  /// Uniform in [0, 1).
  constexpr double unit() { return static_cast<double>(next_u64() >> 11) * 0x1.0p-53; }
  constexpr bool chance(double probability) { return unit() < probability; }

 private:
  uint64_t state_;
};

}  // namespace sumcast
