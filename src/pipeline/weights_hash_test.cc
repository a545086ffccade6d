#include "pipeline/weights_hash.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/prng.h"

namespace sumcast::pipeline {
namespace {

TEST(HashOfBits, SeesTheSignOfZeroAndTheOrder) {
  const auto hash = [](std::vector<float> values) { return hash_of_bits(values); };
  EXPECT_EQ(hash({1.0f, 2.0f}), hash({1.0f, 2.0f}));
  EXPECT_NE(hash({1.0f, 2.0f}), hash({2.0f, 1.0f}));
  EXPECT_NE(hash({0.0f}), hash({-0.0f}));
  EXPECT_NE(hash({0.0f}), hash({0.0f, 0.0f}));
}

TEST(WeightsHash, WitnessesAgreeIfAndOnlyIfHashesDo) {
  Prng prng(9);
  for (const uint32_t ranks : {1u, 2u, 5u, 256u}) {
    for (int round = 0; round < 200; ++round) {
      const uint64_t hash = round < 2 ? (round == 0 ? 0 : UINT64_MAX) : prng.next_u64();
      const uint64_t odd = hash ^ (uint64_t{1} << prng.below(64));
      const uint64_t who = prng.below(ranks);
      std::array<double, kWitnesses> same{}, drifted{};
      for (uint32_t r = 0; r < ranks; ++r) {
        const auto mine = witnesses_of(hash), his = witnesses_of(r == who ? odd : hash);
        for (size_t i = 0; i < kWitnesses; ++i) {
          same[i] += mine[i];
          drifted[i] += his[i];
        }
      }
      EXPECT_TRUE(witnesses_agree(same, ranks));
      EXPECT_EQ(witnesses_agree(drifted, ranks), ranks == 1);
    }
  }
}

}  // namespace
}  // namespace sumcast::pipeline
