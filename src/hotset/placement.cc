#include "hotset/placement.h"

#include "base/assert.h"
#include "base/prng.h"

namespace sumcast::hotset {
namespace {

Placement empty_placement(size_t keys, uint32_t arrays) {
  SUMCAST_ASSERT(arrays >= 1 && arrays <= kArraysMax);
  Placement placement;
  placement.arrays = arrays;
  placement.keys.reserve(keys);
  placement.cells.assign(arrays, 0);
  return placement;
}

Slot take_cell(Placement& placement, uint32_t array) {
  return {static_cast<uint16_t>(array), placement.cells[array]++};
}

/// 0, 1, ..., R-1, R-1, ..., 1, 0, 0, 1, ...: so no array gets the hotter key of every turn.
uint32_t snake(size_t position, uint32_t arrays) {
  const auto place = static_cast<uint32_t>(position % arrays);
  return (position / arrays) % 2 == 0 ? place : arrays - 1 - place;
}

}  // namespace

uint32_t row_lanes(uint32_t arrays, uint32_t width) {
  SUMCAST_ASSERT(width >= 1);
  return std::max(1u, arrays / width);
}

Placement place_by_hash(std::span<const uint64_t> keys, uint32_t arrays) {
  Placement placement = empty_placement(keys.size(), arrays);
  for (const uint64_t key : keys) {
    const auto array = static_cast<uint32_t>(Prng(key).below(arrays));
    placement.keys.push_back({take_cell(placement, array), {}});
  }
  return placement;
}

Placement place_by_heat(size_t keys, uint32_t arrays) {
  return place_two_choices(keys, arrays, 0.0);
}

Placement place_two_choices(size_t keys, uint32_t arrays, double doubled_share) {
  SUMCAST_ASSERT(doubled_share >= 0 && doubled_share <= 1);
  Placement placement = empty_placement(keys, arrays);
  // With one array there is no other to choose.
  placement.doubled =
      arrays < 2 ? 0 : static_cast<size_t>(doubled_share * static_cast<double>(keys));
  for (size_t rank = 0; rank < keys; ++rank) {
    const uint32_t first = snake(rank, arrays);
    PlacedKey placed{take_cell(placement, first), {}};
    if (rank < placement.doubled) {
      const auto distance = static_cast<uint32_t>(1 + (rank / arrays) % (arrays - 1));
      placed.second = take_cell(placement, (first + distance) % arrays);
    }
    placement.keys.push_back(placed);
  }
  return placement;
}

}  // namespace sumcast::hotset
