// How placements and packers do on real batches, side by side.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "hotset/corpus.h"
#include "hotset/placement.h"

namespace sumcast::hotset {

struct PackingRow {
  std::string method;
  double conflicts_per_key = 0;  ///< Keys that find their array taken in their packet.
  double packets_per_batch = 0;
  double passes_per_packet = 0;
  double passes_per_batch = 0;  ///< What the pipeline pays: packets x passes.
  double fill = 0;           ///< Fewest packets that could do (keys / arrays, rounded up) / passes.
  double lanes_filled = 0;   ///< Keys / (passes x arrays).
  double doubled_share = 0;  ///< Keys with two slots.
  uint32_t depth = 0;        ///< Cells of the fullest array.
};

struct PackingStudy {
  double keys_per_batch = 0;  ///< Hot keys.
  uint64_t batches = 0;
  std::vector<PackingRow> rows;
};

/// Compares, over batches of `batch` rows:
///   "hash, naive"         hash placement, keys in id order;
///   "hash, packed"        hash placement, one key per array and packet;
///   "heat, naive"         heat dealing, keys in id order;
///   "heat, packed"        heat dealing, one key per array and packet;
///   "two choices"         the hottest `doubled_share` doubled, packed as well as can be.
///
/// @param hot    the hot set by falling heat; its order places the keys.
/// @param rows   rows to batch: best others than those that `hot` was chosen from.
/// @param arrays lanes, 1..kArraysMax.
PackingStudy study_packing(const Corpus& corpus, std::span<const KeyIndex> hot,
                           std::span<const uint32_t> rows, size_t batch, uint32_t arrays,
                           double doubled_share);

}  // namespace sumcast::hotset
