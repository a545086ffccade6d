// What the tests of this room share: every SIMD target in turn, hostile inputs, odd addresses.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "base/prng.h"
#include "numeric/simd_targets.h"

#include "hwy/highway.h"

namespace sumcast::numeric {

/// The targets that are built, best first, and whether this CPU has them.
struct BuiltTarget {
  int64_t bit = 0;
  const char* name = "";
  bool runs_here = false;
};

inline std::vector<BuiltTarget> built_targets() {
  std::vector<BuiltTarget> targets;
  for (uint64_t rest = HWY_TARGETS; rest != 0; rest &= rest - 1) {
    const int64_t bit = static_cast<int64_t>(rest & ~(rest - 1));
    const bool runs = bit == HWY_SCALAR || (hwy::SupportedTargets() & bit) != 0;
    targets.push_back({bit, hwy::TargetName(bit), runs});
  }
  return targets;
}

/// Runs `body` once per target that this CPU has, with dispatch forced to that target.
template <typename Body>
void on_every_target(Body body) {
  static const std::vector<BuiltTarget> targets = built_targets();
  for (const BuiltTarget& target : targets) {
    if (!target.runs_here) continue;
    SCOPED_TRACE(target.name);
    hwy::SetSupportedTargetsForTest(target.bit);
    hwy::GetChosenTarget().Update(target.bit);
    body();
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

/// Bytes that start `misalignment` past a 64-byte boundary, with a canary on both sides.
class Buffer {
 public:
  Buffer(size_t bytes, size_t misalignment)
      : storage_(bytes + 64 + misalignment + 2 * kCanaryBytes, kCanary), bytes_(bytes) {
    const size_t address = reinterpret_cast<size_t>(storage_.data()) + kCanaryBytes;
    begin_ = kCanaryBytes + (64 - address % 64) % 64 + misalignment;
  }
  std::byte* data() { return storage_.data() + begin_; }
  const std::byte* data() const { return storage_.data() + begin_; }
  size_t size() const { return bytes_; }
  bool canaries_intact() const {
    for (size_t i = 0; i < storage_.size(); ++i) {
      const bool inside = i >= begin_ && i < begin_ + bytes_;
      if (!inside && storage_[i] != kCanary) return false;
    }
    return true;
  }

 private:
  static constexpr size_t kCanaryBytes = 64;
  static constexpr std::byte kCanary{0xA5};
  std::vector<std::byte> storage_;
  size_t bytes_ = 0;
  size_t begin_ = 0;
};

/// Any of the 2^32 patterns, with the special ones made likely: NaNs with payloads, both
/// infinities, both zeros, denormals, the largest and the smallest normal numbers, near twins.
inline uint32_t hostile_f32_bits(Prng& prng) {
  static constexpr uint32_t kSpecial[] = {
      0x00000000, 0x7F800000, 0x7FC00000, 0x7F800001, 0x7FFFFFFF, 0x00000001, 0x007FFFFF,
      0x00800000, 0x7F7FFFFF, 0x3F800000, 0x477FE000, 0x477FEFFF, 0x477FF000, 0x38800000,
      0x33800000, 0x33000000, 0x33000001, 0x3F000000, 0x7F7F8000, 0x7F7F7FFF};
  const uint64_t random = prng.next_u64();
  const uint32_t sign = static_cast<uint32_t>(random) & 0x80000000u;
  switch ((random >> 32) & 7) {
    case 0:
      return sign | kSpecial[prng.below(std::size(kSpecial))];
    case 1:  // Denormal.
      return sign | static_cast<uint32_t>(prng.below(0x800000));
    case 2:  // Halfway and near-halfway patterns of the 16-bit types.
      return (static_cast<uint32_t>(random) & 0xFFFFE000u) | (prng.chance(0.5) ? 0x1000u : 0u);
    case 3:  // The range of f16.
      return sign | (0x33000000u + static_cast<uint32_t>(prng.below(0x15000000)));
    default:
      return static_cast<uint32_t>(random);
  }
}

inline float hostile_f32(Prng& prng) { return std::bit_cast<float>(hostile_f32_bits(prng)); }

/// A finite value of magnitude below `limit`, with a wide spread of exponents.
inline float wide_f32(Prng& prng, float limit) {
  const float fraction = static_cast<float>(2.0 * prng.unit() - 1.0);
  return limit * fraction * std::bit_cast<float>(static_cast<uint32_t>(107 + prng.below(21)) << 23);
}

inline bool same_bits(float a, float b) {
  return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b);
}

}  // namespace sumcast::numeric
