#include "wire/compact.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/prng.h"

namespace sumcast::wire {
namespace {

using Bytes = std::vector<std::byte>;

/// Pieces of 64 bytes, a share of which is not zero; `offset` bytes before the first piece begins.
Bytes pieces(size_t bytes, double density, size_t offset, uint64_t seed) {
  Prng prng(seed);
  Bytes out(bytes);
  for (size_t at = 0; at < bytes;) {
    const size_t end = std::min(bytes, at + (at == 0 && offset != 0 ? offset : 64));
    const bool kept = prng.unit() < density;
    for (; at < end; ++at) {
      if (kept) out[at] = static_cast<std::byte>(1 + prng.below(255));
    }
  }
  return out;
}

/// Expanded into a block of its exact size, so that a sanitizer sees a step beyond its end.
Bytes expanded(const Bytes& payload) {
  const auto bytes = expanded_bytes(payload);
  EXPECT_TRUE(bytes.has_value());
  Bytes out(bytes.value_or(0), std::byte{0xEE});
  expand(payload, out.data());
  return out;
}

/// Made in a block of its exact size.
Bytes compacted(const Bytes& whole) {
  const ZeroMap zeros = find_zeros(whole);
  Bytes payload(zeros.bytes);
  compact(whole, zeros, payload.data());
  return payload;
}

TEST(Compact, GivesBackEveryByte) {
  for (const size_t bytes : {256u, 257u, 271u, 272u, 1408u, 1424u, 1456u, 8924u}) {
    for (const double density : {0.0, 0.05, 0.3, 0.5}) {
      for (const size_t offset : {0u, 16u, 33u}) {
        const Bytes whole = pieces(bytes, density, offset, bytes + offset);
        const ZeroMap zeros = find_zeros(whole);
        if (zeros.bytes == 0) continue;
        EXPECT_LE(3 * zeros.bytes, 2 * bytes);
        EXPECT_EQ(expanded(compacted(whole)), whole) << bytes << " " << density << " " << offset;
      }
    }
  }
}

TEST(Compact, ZerosAloneAreATrailer) {
  const Bytes zeros(1424);
  EXPECT_EQ(find_zeros(zeros).bytes, compact_trailer_bytes(1424));
  EXPECT_EQ(compact_trailer_bytes(1424), 12 + 2u);
  EXPECT_EQ(expanded(compacted(zeros)), zeros);
}

TEST(Compact, HasTheBytesOfTheSpecification) {
  Bytes whole(256 + 4);  // Blocks 1 and 16, the last of which has 4 bytes, are not zero.
  whole[16] = std::byte{7};
  whole[259] = std::byte{9};
  Bytes wanted(16 + 4 + 3 + 2);
  wanted[0] = std::byte{7};
  wanted[16 + 3] = std::byte{9};
  wanted[20] = std::byte{0b10};
  wanted[22] = std::byte{1};
  wanted[23] = std::byte{0x01}, wanted[24] = std::byte{0x04};
  EXPECT_EQ(compacted(whole), wanted);
}

TEST(Compact, WorksInPlace) {
  Bytes whole = pieces(1424, 0.4, 16, 3);
  const Bytes kept = whole;
  const ZeroMap zeros = find_zeros(whole);
  ASSERT_NE(zeros.bytes, 0u);
  compact(whole, zeros, whole.data());
  whole.resize(zeros.bytes);
  EXPECT_EQ(expanded(whole), kept);
}

TEST(Compact, WhatIsDenseStaysAsItIs) {
  EXPECT_EQ(find_zeros(pieces(1424, 1, 0, 1)).bytes, 0u);
  EXPECT_EQ(find_zeros(pieces(1424, 0.8, 0, 1)).bytes, 0u);
  EXPECT_EQ(find_zeros(Bytes(kCompactBytesMin - 1)).bytes, 0u) << "nothing to gain";
  EXPECT_EQ(find_zeros(Bytes(kCompactBytesMax + 1)).bytes, 0u) << "longer than any payload";
  EXPECT_NE(find_zeros(Bytes(kCompactBytesMax)).bytes, 0u);
  EXPECT_EQ(find_zeros({}).bytes, 0u);
}

TEST(Compact, AMinusZeroIsNoZero) {
  std::vector<float> lanes(356, -0.0f);
  EXPECT_EQ(find_zeros(std::as_bytes(std::span(lanes))).bytes, 0u);
}

TEST(Compact, PaddingLiesBeforeTheTrailer) {
  const Bytes whole = pieces(1424, 0.2, 0, 5);
  Bytes payload = compacted(whole);
  const size_t length = payload.size();
  payload.resize(1424, std::byte{0xEE});
  for (const size_t more : {0u, 1u, 5u, 14u, 200u}) {
    Bytes padded = payload;
    pad_compact(padded.data(), length, length + more);
    padded.resize(length + more);
    EXPECT_EQ(expanded(padded), whole) << more;
    const auto trailer = static_cast<std::ptrdiff_t>(compact_trailer_bytes(1424));
    EXPECT_EQ(std::count(padded.end() - trailer - static_cast<std::ptrdiff_t>(more),
                         padded.end() - trailer, std::byte{0}),
              static_cast<std::ptrdiff_t>(more));
  }
}

TEST(Compact, OtherBytesAreNotCompactPayloads) {
  EXPECT_FALSE(expanded_bytes({}));
  EXPECT_FALSE(expanded_bytes(Bytes(1)));
  EXPECT_FALSE(expanded_bytes(Bytes(2))) << "of no bytes";
  Bytes payload(16 + 1 + 2);
  payload[18] = std::byte{32};  // Two blocks, of which the bitmap has none.
  EXPECT_EQ(expanded_bytes(payload), 32u);
  payload[16] = std::byte{1};
  EXPECT_EQ(expanded_bytes(payload), 32u);
  payload[16] = std::byte{3};
  EXPECT_FALSE(expanded_bytes(payload)) << "the second block is not there";
  payload[16] = std::byte{4};
  EXPECT_FALSE(expanded_bytes(payload)) << "a third block";
  payload[16] = std::byte{0x80};
  EXPECT_FALSE(expanded_bytes(payload)) << "an eighth block";
  payload[16] = std::byte{3};
  payload[18] = std::byte{17};  // The second has one byte.
  EXPECT_FALSE(expanded_bytes(payload));
  payload.insert(payload.begin(), std::byte{5});
  EXPECT_EQ(expanded_bytes(payload), 17u);
  EXPECT_FALSE(expanded_bytes(Bytes(8, std::byte{0xFF}))) << "a trailer longer than all";
}

}  // namespace
}  // namespace sumcast::wire
