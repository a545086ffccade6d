// Where hot keys lie on the register arrays of an aggregator.
//
// A packet may touch each array once a pass, so two keys of one packet in one array - a conflict -
// cost another pass, or another packet. A batch whose fullest array holds m of its keys needs m
// packets at least: what a placement can do is to spread every batch evenly.
//
//   hash           array by hash of the key: the naive way, to compare with.
//   heat dealing   keys by falling heat, dealt to and fro over the arrays (snake order).
//   two choices    besides, the hottest keys get a slot in *two* arrays, and the packer takes the
//   one
//                  that suits the batch; whoever reads adds both. Pairs of arrays rotate through
//                  all distances, so that load can flow from any array to any other in few hops.
//
// Rows of D floats take D neighbouring arrays at one index: R arrays are R / D *lanes* for rows,
// and no row conflicts with itself. All of this file speaks of lanes as "arrays"; row_lanes says
// how many there are.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace sumcast::hotset {

/// A lane bitmap is one word.
inline constexpr uint32_t kArraysMax = 64;

/// One cell of one array.
struct Slot {
  static constexpr uint16_t kNoArray = UINT16_MAX;

  uint16_t array = kNoArray;
  uint32_t index = 0;

  bool exists() const { return array != kNoArray; }
  bool operator==(const Slot&) const = default;
};

struct PlacedKey {
  Slot first;
  Slot second;  ///< Exists for doubled keys only, and then lies in another array.
};

struct Placement {
  uint32_t arrays = 0;
  std::vector<PlacedKey> keys;  ///< By rank: the hottest key is 0.
  std::vector<uint32_t> cells;  ///< Used of each array: the depth that it needs.
  size_t doubled = 0;           ///< Keys with a second slot.

  /// Cells of the fullest array.
  uint32_t depth() const { return *std::max_element(cells.begin(), cells.end()); }
};

/// Lanes for rows of `width` floats on `arrays` arrays: arrays / width, at least 1 (a wider row
/// takes several indices of all arrays, a pass each).
uint32_t row_lanes(uint32_t arrays, uint32_t width);

/// `arrays` in 1..kArraysMax throughout; keys come by falling heat.
Placement place_by_hash(std::span<const uint64_t> keys, uint32_t arrays);
Placement place_by_heat(size_t keys, uint32_t arrays);
/// The hottest `doubled_share` of the keys (in [0, 1], rounded down) get two slots.
Placement place_two_choices(size_t keys, uint32_t arrays, double doubled_share);

}  // namespace sumcast::hotset
