#include "hotset/packer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <set>

#include "base/prng.h"
#include "hotset/heat.h"
#include "hotset/packing_study.h"

namespace sumcast::hotset {
namespace {

std::vector<uint32_t> some_ranks(size_t keys, double chance, Prng& prng) {
  std::vector<uint32_t> ranks;
  for (uint32_t rank = 0; rank < keys; ++rank) {
    if (prng.chance(chance)) ranks.push_back(rank);
  }
  return ranks;
}

/// What every packed batch must be.
void check_packed(const Placement& placement, const std::vector<uint32_t>& ranks,
                  const PackedBatch& packed) {
  std::vector<uint32_t> seen;
  for (const Packet& packet : packed.packets) {
    ASSERT_NE(packet.lane_bitmap, 0u);
    uint64_t left = packet.lane_bitmap;
    for (uint32_t i = packet.first_lane; left != 0; ++i, left &= left - 1) {
      ASSERT_LT(i, packed.lanes.size());
      const PackedLane& lane = packed.lanes[i];
      ASSERT_EQ(lane.slot.array, std::countr_zero(left));
      const PlacedKey& placed = placement.keys[lane.rank];
      ASSERT_TRUE(lane.slot == placed.first ||
                  (placed.second.exists() && lane.slot == placed.second));
      seen.push_back(lane.rank);
    }
  }
  ASSERT_EQ(packed.lanes.size(), ranks.size());
  std::vector<uint32_t> expected = ranks;
  std::sort(expected.begin(), expected.end());
  std::sort(seen.begin(), seen.end());
  ASSERT_EQ(seen, expected);  // Every key once, none else.
}

/// The least possible load of the fullest array, by trying all choices.
size_t best_load(const Placement& placement, const std::vector<uint32_t>& ranks) {
  std::vector<uint32_t> doubled;
  for (const uint32_t rank : ranks) {
    if (placement.keys[rank].second.exists()) doubled.push_back(rank);
  }
  size_t best = SIZE_MAX;
  for (uint32_t choice = 0; choice < 1u << doubled.size(); ++choice) {
    std::vector<size_t> load(placement.arrays);
    for (const uint32_t rank : ranks) {
      const auto place = std::find(doubled.begin(), doubled.end(), rank) - doubled.begin();
      const bool second = static_cast<size_t>(place) < doubled.size() && (choice >> place & 1) != 0;
      const PlacedKey& placed = placement.keys[rank];
      ++load[second ? placed.second.array : placed.first.array];
    }
    best = std::min(best, *std::max_element(load.begin(), load.end()));
  }
  return best;
}

TEST(Placement, EveryKeyHasItsOwnCells) {
  for (const uint32_t arrays : {1u, 2u, 5u, 32u, 64u}) {
    const Placement placement = place_two_choices(1000, arrays, 0.25);
    std::set<std::pair<uint16_t, uint32_t>> cells;
    size_t slots = 0;
    for (size_t rank = 0; rank < 1000; ++rank) {
      const PlacedKey& placed = placement.keys[rank];
      EXPECT_EQ(placed.second.exists(), arrays > 1 && rank < 250);
      EXPECT_LT(placed.first.array, arrays);
      cells.insert({placed.first.array, placed.first.index});
      ++slots;
      if (!placed.second.exists()) continue;
      EXPECT_NE(placed.first.array, placed.second.array);
      EXPECT_LT(placed.second.array, arrays);
      cells.insert({placed.second.array, placed.second.index});
      ++slots;
    }
    EXPECT_EQ(cells.size(), slots);
    EXPECT_LE(placement.depth(), slots / arrays + 2 + 250 / arrays);
  }
}

TEST(Placement, HeatIsDealtEvenly) {
  const Placement placement = place_by_heat(3200, 32);
  std::vector<double> heat(32);
  for (size_t rank = 0; rank < 3200; ++rank) {
    heat[placement.keys[rank].first.array] += 1.0 / (100.0 + static_cast<double>(rank));
  }
  const auto [least, most] = std::minmax_element(heat.begin(), heat.end());
  EXPECT_LT(*most / *least, 1.05);
}

TEST(Placement, WideRowsLeaveFewerLanes) {
  EXPECT_EQ(row_lanes(32, 1), 32u);
  EXPECT_EQ(row_lanes(32, 16), 2u);
  EXPECT_EQ(row_lanes(32, 12), 2u);
  EXPECT_EQ(row_lanes(32, 64), 1u);
}

TEST(Packer, FindsTheBestOfAllChoices) {
  Prng prng(1);
  for (int trial = 0; trial < 300; ++trial) {
    const auto arrays = static_cast<uint32_t>(2 + prng.below(4));
    const Placement placement = place_two_choices(20, arrays, 0.5);
    const auto ranks = some_ranks(20, 0.6, prng);
    Packer packer(placement);
    const PackedBatch& packed = packer.pack(ranks);
    check_packed(placement, ranks, packed);
    EXPECT_EQ(packed.packets.size(), ranks.empty() ? 0 : best_load(placement, ranks));
  }
}

TEST(Packer, MovesKeysThroughOtherArrays) {
  // Three keys that lie in array 0 only, one that could leave it for 1, and a chain 1-2, 2-3 of
  // keys that must move on for it: the greedy choice may leave the chain where it is.
  Placement placement;
  placement.arrays = 4;
  placement.cells = {8, 8, 8, 8};
  const auto slot = [](uint16_t array, uint32_t index) { return Slot{array, index}; };
  for (uint32_t i = 0; i < 2; ++i) placement.keys.push_back({slot(0, i), {}});
  placement.keys.push_back({slot(1, 0), {}});
  placement.keys.push_back({slot(2, 0), {}});
  placement.keys.push_back({slot(2, 1), slot(3, 0)});
  placement.keys.push_back({slot(1, 1), slot(2, 2)});
  placement.keys.push_back({slot(0, 2), slot(1, 2)});
  placement.keys.push_back({slot(0, 3), slot(1, 3)});
  Packer packer(placement);
  const std::vector<uint32_t> ranks = {0, 1, 2, 3, 4, 5, 6, 7};
  const PackedBatch& packed = packer.pack(ranks);
  check_packed(placement, ranks, packed);
  EXPECT_EQ(packed.packets.size(), 3u);
  EXPECT_EQ(best_load(placement, ranks), 3u);
}

TEST(Packer, PacksAnyBatchOneKeyPerArrayAndPacket) {
  Prng prng(2);
  for (const uint32_t arrays : {1u, 2u, 31u, 32u, 64u}) {
    const Placement placement = place_two_choices(2000, arrays, 0.25);
    Packer packer(placement);  // Used again and again, as a worker does.
    for (const double chance : {0.0, 0.001, 0.02, 0.3, 1.0}) {
      const auto ranks = some_ranks(2000, chance, prng);
      check_packed(placement, ranks, packer.pack(ranks));
    }
  }
}

TEST(Packer, NaivePackingCountsConflicts) {
  Placement placement;
  placement.arrays = 4;
  placement.cells = {4, 4, 4, 4};
  for (uint32_t i = 0; i < 4; ++i) placement.keys.push_back({Slot{0, i}, {}});
  for (uint32_t i = 0; i < 2; ++i) placement.keys.push_back({Slot{1, i}, {}});
  const NaivePacking naive = pack_naively(placement, std::vector<uint32_t>{0, 1, 4, 5, 2, 3});
  EXPECT_EQ(naive.packets, 2u);
  EXPECT_EQ(naive.passes, 4u);  // Two of array 0 and two of 1; then two of 0.
  EXPECT_EQ(naive.conflicts, 3u);
}

TEST(PackingStudy, TwoChoicesBeatHashingByTheStatedBar) {
  // Click-like: 16 fields, keys by a law with a heavy head.
  Prng prng(3);
  Corpus corpus;
  std::vector<uint64_t> row;
  for (int i = 0; i < 12'000; ++i) {
    row.clear();
    for (uint64_t field = 0; field < 16; ++field) {
      row.push_back(
          Prng(field << 32 | static_cast<uint64_t>(std::pow(2000.0, prng.unit()))).next_u64());
    }
    corpus.add_row(row);
  }
  const auto rows = draw_rows(corpus, 1.0, prng);
  const auto sample = std::span(rows).first(6000);
  auto hot = by_heat(corpus, count_touches(corpus, sample, 64));
  hot.resize(2048);
  const PackingStudy study =
      study_packing(corpus, hot, std::span(rows).subspan(6000), 64, 32, 0.25);
  EXPECT_EQ(study.batches, 93u);
  ASSERT_EQ(study.rows.size(), 5u);
  const PackingRow& naive = study.rows.front();
  const PackingRow& ours = study.rows.back();
  EXPECT_GT(naive.conflicts_per_key, 0.3);  // Random: .36.
  EXPECT_EQ(ours.conflicts_per_key, 0.0);
  EXPECT_DOUBLE_EQ(ours.doubled_share, 0.25);
  EXPECT_GE(ours.fill, 0.9);
  EXPECT_LE(ours.passes_per_batch, 0.35 * naive.passes_per_batch);
  for (const PackingRow& method : study.rows) {
    EXPECT_LE(method.lanes_filled, method.fill);
    EXPECT_LE(method.fill, 1.0);
    EXPECT_GE(method.passes_per_batch, ours.passes_per_batch) << method.method;
  }
}

}  // namespace
}  // namespace sumcast::hotset
