#include "numeric/rows.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <vector>

#include "base/prng.h"
#include "numeric/codec.h"
#include "numeric/fold.h"

namespace sumcast::numeric {
namespace {

using Payload = std::vector<std::byte>;
using Rows = std::map<uint32_t, std::vector<float>>;

constexpr WireFormat kFormats[] = {WireFormat::kNative, WireFormat::kBF16, WireFormat::kFP16,
                                   WireFormat::kInt8};

float random_float(Prng& random) {
  return (static_cast<float>(random.below(2'000'001)) - 1'000'000.0f) / 977.0f;
}

Rows random_rows(Prng& random, RowShape shape, uint32_t percent) {
  Rows rows;
  for (uint32_t slot = 0; slot < shape.slots; ++slot) {
    if (random.below(100) >= percent) continue;
    auto& row = rows[slot];
    for (size_t i = 0; i < shape.width; ++i) row.push_back(random_float(random));
  }
  return rows;
}

Payload encoded(WireFormat format, RowShape shape, const Rows& rows, uint32_t first) {
  std::vector<uint32_t> slots;
  std::vector<float> values;
  for (const auto& [slot, row] : rows) {
    slots.push_back(first + slot);
    values.insert(values.end(), row.begin(), row.end());
  }
  Payload payload(rows_payload_bytes(format, shape, rows.size()));
  EXPECT_EQ(encode_rows(format, shape, slots, first, values.data(), payload.data()),
            payload.size());
  return payload;
}

TEST(Rows, ACellHoldsAsManySlotsAsFitWithAllTheirRows) {
  for (const WireFormat format : kFormats) {
    for (const size_t width : {1, 3, 16, 64, 200}) {
      const size_t slots = slots_per_cell(format, width, 1420);
      ASSERT_GE(slots, 1u);
      const RowShape shape{static_cast<uint16_t>(slots), static_cast<uint16_t>(width)};
      EXPECT_LE(rows_payload_bytes(format, shape, slots), 1420u);
      const RowShape more{static_cast<uint16_t>(slots + 1), static_cast<uint16_t>(width)};
      EXPECT_GT(rows_payload_bytes(format, more, slots + 1), 1420u);
    }
  }
  EXPECT_EQ(slots_per_cell(WireFormat::kNative, 16, 1420), 22u);
  EXPECT_EQ(slots_per_cell(WireFormat::kNative, 355, 1420), 0u) << "a row and no room for its bit";
}

TEST(Rows, WhatIsEncodedComesBackWhereItBelongsAndNothingElseIsWritten) {
  Prng random(1);
  for (const uint16_t slots : std::initializer_list<uint16_t>{1, 31, 32, 33, 70}) {
    const RowShape shape{slots, 5};
    Rows rows = random_rows(random, shape, 40);
    if (rows.empty()) rows[0] = {1, 2, 3, 4, 5};
    const uint32_t first = 1000;
    const Payload payload = encoded(WireFormat::kNative, shape, rows, first);
    ASSERT_TRUE(is_rows(WireFormat::kNative, payload));
    EXPECT_EQ(shape_of(payload), shape);
    std::vector<float> cell(size_t{slots} * 5, -7.0f);
    std::vector<uint64_t> touched(20, 0);
    EXPECT_EQ(decode_rows(WireFormat::kNative, payload, cell.data(), touched.data(), first),
              rows.size());
    for (uint32_t slot = 0; slot < slots; ++slot) {
      const bool here = rows.contains(slot);
      EXPECT_EQ((touched[(first + slot) / 64] >> (first + slot) % 64 & 1) != 0, here);
      for (size_t i = 0; i < 5; ++i) {
        EXPECT_EQ(cell[slot * 5 + i], here ? rows[slot][i] : -7.0f);
      }
    }
  }
}

TEST(Rows, ASumHasTheUnionOfRowsEachFoldedInOrderOverThoseThatHoldIt) {
  Prng random(2);
  for (const WireFormat format : kFormats) {
    for (const Reduction reduction : {Reduction::kSum, Reduction::kAvg}) {
      for (int round = 0; round < 20; ++round) {
        const RowShape shape{static_cast<uint16_t>(1 + random.below(40)), 16};
        const size_t members = 1 + random.below(9);
        std::vector<Payload> payloads;
        std::map<uint32_t, std::vector<Payload>> encoded_rows;
        for (size_t m = 0; m < members; ++m) {
          Rows rows = random_rows(random, shape, 30);
          rows[0].resize(16, 1.5f);
          for (const auto& [slot, row] : rows) {
            Payload bytes(payload_bytes(ElementType::kF32, format, 16));
            if (format == WireFormat::kNative) {
              std::memcpy(bytes.data(), row.data(), bytes.size());
            } else {
              encode(format, row.data(), 16, bytes.data());
            }
            encoded_rows[slot].push_back(bytes);
          }
          // One byte off, as in a receive buffer.
          Payload shifted(1);
          const Payload payload = encoded(format, shape, rows, 0);
          shifted.insert(shifted.end(), payload.begin(), payload.end());
          payloads.push_back(shifted);
        }
        std::vector<const std::byte*> sources, scratch(2 * members);
        for (const Payload& payload : payloads) sources.push_back(payload.data() + 1);
        Payload sum(rows_payload_bytes(format, shape, shape.slots));
        sum.resize(fold_rows(format, reduction, sources.data(), members, 8, scratch, sum.data()));
        ASSERT_TRUE(is_rows(format, sum));
        const size_t bytes = payload_bytes(ElementType::kF32, format, 16);
        ASSERT_EQ(sum.size(), rows_payload_bytes(format, shape, encoded_rows.size()));
        const std::byte* at = sum.data() + rows_payload_bytes(format, shape, 0);
        for (const auto& [slot, contributions] : encoded_rows) {
          std::vector<const std::byte*> rows;
          for (const Payload& row : contributions) rows.push_back(row.data());
          Payload expected(bytes);
          if (format == WireFormat::kNative) {
            fold(ElementType::kF32, reduction, rows.data(), rows.size(), 16, 8, expected.data());
          } else {
            fold_encoded(format, reduction, rows.data(), rows.size(), 16, 8, expected.data());
          }
          EXPECT_EQ(std::memcmp(expected.data(), at, bytes), 0) << "slot " << slot;
          at += bytes;
        }
      }
    }
  }
}

TEST(Rows, BytesThatAreNoRowsAreRefused) {
  Prng random(3);
  const RowShape shape{40, 3};
  const Rows rows{{0, {1, 2, 3}}, {39, {4, 5, 6}}};
  const Payload good = encoded(WireFormat::kNative, shape, rows, 0);
  ASSERT_TRUE(is_rows(WireFormat::kNative, good));
  EXPECT_FALSE(is_rows(WireFormat::kFixed, good));
  for (size_t length = 0; length < good.size(); ++length) {
    EXPECT_FALSE(is_rows(WireFormat::kNative, std::span(good).first(length))) << length;
  }
  Payload padded = good;
  padded.resize(good.size() + 100, std::byte{0xEE});
  EXPECT_TRUE(is_rows(WireFormat::kNative, padded));
  Payload outside = good;  // A bit beyond the last slot, one row fewer inside.
  outside[4] = std::byte{0};
  outside[8 + 1] |= std::byte{1};
  EXPECT_FALSE(is_rows(WireFormat::kNative, outside));
  Payload none(12, std::byte{0});
  none[0] = std::byte{40}, none[2] = std::byte{3};
  EXPECT_TRUE(is_rows(WireFormat::kNative, none)) << "a cell that nobody touched";
  none[0] = std::byte{0};
  EXPECT_FALSE(is_rows(WireFormat::kNative, none)) << "a cell of no slots";
  for (int i = 0; i < 20000; ++i) {  // Never reads beyond what it is given (asan).
    Payload noise(random.below(64));
    for (std::byte& byte : noise) byte = static_cast<std::byte>(random.below(256));
    (void)is_rows(WireFormat::kInt8, noise);
  }
}

}  // namespace
}  // namespace sumcast::numeric
