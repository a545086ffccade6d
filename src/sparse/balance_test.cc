#include "sparse/balance.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "sparse/options.h"

namespace sumcast::sparse {
namespace {

LinkModel rows_of_16() {
  LinkModel model;
  model.workers = 8;
  model.row_bytes = model.gradient_bytes = 64;
  return model;
}

TEST(Balance, KeysThatAllTouchArePutOnTheAggregatorAndRareOnesAreNot) {
  std::vector<double> chances(1000, 0.9);
  chances.resize(101000, 0.001);
  const Balance found = balance(rows_of_16(), chances, 2000, 100000);
  EXPECT_GE(found.hot, 800u);  // Most of the thousand: fewer would cost more than the tolerance.
  EXPECT_LT(found.hot, 30000u);
  EXPECT_GT(found.gain(), 1.2);
}

TEST(Balance, FlatKeysStayCold) {
  const std::vector<double> chances(100000, 0.0067);
  LinkModel model = rows_of_16();
  model.workers = 2;  // Nothing is shared, and two workers' links carry what the server's does.
  EXPECT_LT(balance(model, chances, 6000, 100000).gain(), 1.1);
}

TEST(Balance, TheHotSetIsNoLargerThanAllowedAndNothingIsGainedFromNothing) {
  const std::vector<double> chances(1000, 0.9);
  EXPECT_LE(balance(rows_of_16(), chances, 0, 10).hot, 10u);
  EXPECT_EQ(balance(rows_of_16(), {}, 100, 10).hot, 0u);
  EXPECT_EQ(balance(rows_of_16(), {}, 0, 10).gain(), 1.0);
}

TEST(Balance, MoreServersLeaveLessToGain) {
  std::vector<double> chances(3000, 0.5);
  LinkModel model = rows_of_16();
  const double one = balance(model, chances, 2000, 100000).gain();
  model.servers = 8;
  EXPECT_LT(balance(model, chances, 2000, 100000).gain(), one);
}

TEST(Balance, SmallRoundsHaveFewSegmentsAndLargeOnesMany) {
  table::TableShape shape;
  shape.width = 16;
  uint32_t before = 0;
  for (const double rows : {0.0, 10.0, 1000.0, 3000.0, 6000.0}) {
    const uint32_t segments = segments_for(rows, 1, shape, WireFormat::kNative);
    EXPECT_GE(segments, std::max(before, 1u));
    before = segments;
  }
  EXPECT_EQ(segments_for(100, 1, shape, WireFormat::kNative), 1u);
  EXPECT_EQ(segments_for(1e9, 1, shape, WireFormat::kNative), 32u);
  EXPECT_EQ(segments_for(1365, 1, shape, WireFormat::kNative), 4u) << "of 24 KiB each";
  EXPECT_EQ(segments_for(1365, 4, shape, WireFormat::kNative), 1u) << "a server has a quarter";
}

}  // namespace
}  // namespace sumcast::sparse
