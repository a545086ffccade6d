// What rounding does to a row that is read (docs/numerics.md N24).
#include "sparse/row_codec.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/prng.h"

namespace sumcast::sparse {
namespace {

constexpr WireFormat kRounding[] = {WireFormat::kBF16, WireFormat::kFP16, WireFormat::kInt8};
constexpr size_t kBlock = 256;

std::vector<float> read_of(const RowCodec& codec, const std::vector<float>& row) {
  std::vector<std::byte> scratch(codec.row_bytes());
  std::vector<float> read(row.size());
  codec.round(row.data(), scratch.data(), read.data());
  return read;
}

/// How far a lane may be off, by N24.
double bound(WireFormat format, const std::vector<float>& row, size_t lane) {
  if (format == WireFormat::kBF16) return std::ldexp(std::abs(row[lane]), -8) + std::ldexp(1, -134);
  if (format == WireFormat::kFP16) return std::ldexp(std::abs(row[lane]), -11) + std::ldexp(1, -25);
  const size_t first = lane / kBlock * kBlock;
  double largest = 0;
  for (size_t i = first; i < std::min(first + kBlock, row.size()); ++i) {
    if (std::isfinite(row[i])) largest = std::max<double>(largest, std::abs(row[i]));
  }
  return largest / 251 + std::ldexp(1, -142);
}

TEST(RowCodec, ReadsAreWithinTheirBoundForRowsOfAnyWidthAndScale) {
  Prng random(3);
  for (const WireFormat format : kRounding) {
    for (const size_t width : {1, 2, 16, 255, 256, 257, 600}) {
      const RowCodec codec(format, width);
      for (const int scale : {-130, -20, -3, 0, 12}) {
        std::vector<float> row(width);
        for (float& lane : row) {
          const int smaller = static_cast<int>(random.below(12));
          lane = static_cast<float>(std::ldexp(random.unit() - 0.5, scale - smaller));
        }
        const std::vector<float> read = read_of(codec, row);
        for (size_t lane = 0; lane < width; ++lane) {
          EXPECT_LE(std::abs(double{read[lane]} - row[lane]), bound(format, row, lane))
              << name_of(format) << " " << width << " lanes, lane " << lane << ": " << row[lane];
        }
      }
    }
  }
}

TEST(RowCodec, RowsTakeTheBytesOfTheirFormat) {
  EXPECT_EQ(RowCodec(WireFormat::kNative, 16).row_bytes(), 64u);
  EXPECT_EQ(RowCodec(WireFormat::kBF16, 16).row_bytes(), 32u);
  EXPECT_EQ(RowCodec(WireFormat::kInt8, 16).row_bytes(), 20u) << "a scale for each row";
  EXPECT_EQ(RowCodec(WireFormat::kInt8, 300).row_bytes(), 308u) << "a scale for every 256 lanes";
}

TEST(RowCodec, WhatIsNoNumberReadsAsSuchAndSpoilsNoOtherLane) {
  const float inf = std::numeric_limits<float>::infinity();
  const std::vector<float> row = {1.0f, std::nanf(""), inf, -inf, -1.0f, 0.0f};
  for (const WireFormat format : kRounding) {
    const std::vector<float> read = read_of(RowCodec(format, row.size()), row);
    EXPECT_TRUE(std::isnan(read[1]));
    EXPECT_EQ(read[2], inf);
    EXPECT_EQ(read[3], -inf);
    for (const size_t lane : {0, 4, 5}) EXPECT_NEAR(read[lane], row[lane], 1.0 / 251);
  }
}

TEST(RowCodec, NativeRowsReadAsTheyAre) {
  const RowCodec codec(WireFormat::kNative, 3);
  EXPECT_TRUE(codec.is_exact());
  const std::vector<float> row = {0.1f, -3e-40f, 7e30f};
  EXPECT_EQ(read_of(codec, row), row);
}

}  // namespace
}  // namespace sumcast::sparse
