// Where an operation's chunks lie: which shard owns them, which elements they hold, who contributes
// and who wants the sum.
//
//   all-reduce over 3 shards, first owner 1, chunks of L elements:
//     elements   | 0..L | L..2L | 2L..3L | 3L..4L | ...
//     chunk g    |  0   |   1   |   2    |   3    |
//     shard      |  1   |   2   |   0    |   1    |     (first + g) mod 3
//     local i    |  0   |   0   |   0    |   1    |     its place among the shard's own chunks
//
// The first owner depends on group and sequence number alone, so ranks that disagree about all else
// still meet in one slot (P4). An operation whose data chunks do not start there (broadcast,
// reduce, all-gather, reduce-scatter) begins with a rendezvous: a chunk without lanes at the first
// owner.
//
// Pure arithmetic; it knows no sockets, slots or bytes.
#pragma once

#include <cstdint>

#include "wire/descriptor.h"

namespace sumcast::collective {

/// What one rank does with one chunk. Offsets and counts are elements; rows, if the operation sums
/// rows.
struct ChunkPlace {
  uint64_t input_offset = 0;   ///< In the tensor this rank contributes from.
  uint64_t output_offset = 0;  ///< In the tensor this rank receives into.
  uint32_t lanes = 0;          ///< 0: a rendezvous.
  bool contributes = false;    ///< This rank's lanes are part of the sum.
  bool receives = false;       ///< This rank wants the result's lanes.
};

class Geometry {
 public:
  /// @param lanes_max   elements per chunk, >= 1; the same on all ranks.
  /// @param shards      >= 1.
  /// @param owned       true under `direct`: shard j lives at rank j of the group, so chunks with
  /// one
  ///                    source or one destination are owned by that rank's shard.
  Geometry(const wire::OperationDescriptor& operation, uint32_t group_size, uint32_t my_rank,
           uint32_t lanes_max, uint32_t shards, bool owned);

  /// Chunks that `shard` owns in this operation; 0 if it takes no part.
  uint32_t total(uint32_t shard) const;
  /// Chunk `local` of `shard`; local < total(shard).
  ChunkPlace place(uint32_t shard, uint32_t local) const;
  uint32_t first_shard() const { return first_; }

 private:
  uint64_t data_total(uint32_t shard) const;
  uint64_t data_chunk(uint32_t shard, uint64_t index) const;
  ChunkPlace data_place(uint64_t chunk) const;

  wire::OperationKind kind_;
  uint64_t count_;
  uint32_t size_, me_, root_, lanes_max_, shards_, first_;
  uint64_t chunks_per_part_;
  bool rendezvous_;   // Chunk 0 of the first owner has no lanes.
  bool partitioned_;  // One part per rank: all-gather, reduce-scatter.
  bool owned_;
};

}  // namespace sumcast::collective
