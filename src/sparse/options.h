// What all members of a sparse job agree on, and who holds which key.
//
// Ranks 0 .. workers-1 of the context are workers, the `servers` ranks behind them hold the rows.
// A key belongs to one server and, there, to one segment: a table of its own whose round ends
// before the next segment's begins, so that rows travel to the server while others come back.
//
//   mix = mix_key(key)     server = high 32 bits scaled to `servers`, segment = low 32 bits scaled
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "sparse/manifest.h"
#include "sumcast/element.hpp"
#include "table/row_table.h"

namespace sumcast::sparse {

inline constexpr uint32_t kStalenessMax = 64;

struct Options {
  uint32_t workers = 1;
  uint32_t servers = 1;
  uint32_t segments = 16;  ///< Of each server, 1..256.
  table::TableShape shape;
  /// How gradients travel, hot and cold alike: kNative, kBF16, kFP16 or kInt8.
  WireFormat wire = WireFormat::kNative;
  /// How rows that are pulled travel: the same formats. Hot rows, which workers hold themselves,
  /// read as if they had travelled (P26); rows are kept, moved, saved and peeked at as they are.
  WireFormat row_wire = WireFormat::kNative;
  /// How many batches a worker may announce ahead of the one that it trains on (P20): a read for
  /// step c then contains the steps up to c - 1 - staleness. 0: synchronous.
  uint32_t staleness = 0;
  /// Each worker's gradients move rows as they come, whatever step the others are in (P21). No keys
  /// can be hot then, and nothing dense is summed.
  bool asynchronous = false;
  /// Keys of one segment that are counted and have no row yet (shape.life.admit_after), about 80
  /// bytes each.
  uint32_t candidates_max = 1 << 16;
  /// Rows of one segment that a worker may push or pull in a round: bounds what a server allots.
  uint32_t body_rows_max = 1 << 20;
  /// Where Worker::save() puts checkpoints: a directory that worker 0 and all servers see, each by
  /// its own name for it. Empty: none are written.
  std::string checkpoint_directory;
  /// The checkpoint in that directory which the servers take up; all members name the same one.
  /// Unset: rows are new, and the directory holds no checkpoint yet.
  std::optional<Manifest> restore{};

  Result<void> validate() const;
  /// Equal on all members, or they do not belong together.
  uint64_t fingerprint() const;
};

/// How many segments suit rounds of so many rows: as few as keep messages small against the window
/// that a server's link needs (frames.h), for each costs a message either way.
///
/// @param rows  of a worker's batch, all servers' together.
uint32_t segments_for(double rows, uint32_t servers, const table::TableShape& shape,
                      WireFormat wire);

/// The limit of one segment (TableShape::rows_max) where all have room for `rows` together; 0: no
/// limit.
inline uint64_t segment_rows_max(uint64_t rows, const Options& options) {
  const uint64_t parts = uint64_t{options.servers} * options.segments;
  return rows == 0 ? table::TableShape().rows_max : (rows + parts - 1) / parts;
}

inline uint32_t server_of(uint64_t mixed, const Options& options) {
  return static_cast<uint32_t>(((mixed >> 32) * options.servers) >> 32);
}
inline uint32_t segment_of(uint64_t mixed, const Options& options) {
  return static_cast<uint32_t>(((mixed & 0xFFFFFFFFu) * options.segments) >> 32);
}

}  // namespace sumcast::sparse
