// Packs the hot keys of a batch into packets: one key per array and packet, so no conflict at all.
//
// Keys are put into one bucket per array; packet j takes the j-th key of every bucket, and a bitmap
// says which lanes it fills. A batch takes as many packets as its fullest bucket has keys. Where
// doubled keys leave a choice, it is made best, not just well:
//
//   Each doubled key is an edge between its two arrays, pointing to where it lies. If the fullest
//   array reaches, along such edges turned round, one with at least two keys less, every key on the
//   path moves on by one array: the fullest loses one, the end gains one, all others stay. If it
//   reaches none, then the arrays that it does reach hold only keys that cannot leave them, on
//   average more than fullest - 1 of them, so no choice can do better.
//
// That is the minimum of the maximal load, at O(R) words of search per moved key.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "hotset/placement.h"

namespace sumcast::hotset {

struct PackedLane {
  uint32_t rank = 0;  ///< The key, by its rank in the placement.
  Slot slot;
};

struct Packet {
  uint64_t lane_bitmap = 0;  ///< Bit a: a value for array a is in it.
  uint32_t first_lane =
      0;  ///< In PackedBatch::lanes: popcount(lane_bitmap) of them, arrays rising.
};

struct PackedBatch {
  std::vector<Packet> packets;
  std::vector<PackedLane> lanes;
};

/// One thread at a time. Holds buffers, so that packing allocates only until they have grown.
class Packer {
 public:
  /// `placement` must outlive this.
  explicit Packer(const Placement& placement);

  /// @param ranks distinct keys of a batch, by rank in the placement, in any order.
  /// @return until the next call.
  const PackedBatch& pack(std::span<const uint32_t> ranks);

 private:
  static constexpr uint32_t kNone = UINT32_MAX;

  uint32_t& head(uint32_t from, uint32_t to) { return heads_[from * placement_.arrays + to]; }
  void put(uint32_t key, uint32_t array, uint32_t other);
  void take_and_put(uint32_t from, uint32_t to);
  void assign(std::span<const uint32_t> ranks);
  bool relieve(uint32_t fullest);
  void emit(std::span<const uint32_t> ranks);

  const Placement& placement_;
  std::vector<uint32_t> load_;      // Keys of the batch per array.
  std::vector<uint64_t> movable_;   // Per array: bit b if one of its keys could lie in b instead.
  std::vector<uint32_t> heads_;     // Lists of those keys, per (array, other array).
  std::vector<uint32_t> next_;      // Per key of the batch: its successor in such a list.
  std::vector<uint16_t> array_of_;  // Per key of the batch: where it lies.
  std::vector<uint32_t> filled_;    // Per array, while packets are written.
  PackedBatch packed_;
};

/// The naive way, to compare with: keys in the given order, as many per packet as there are arrays,
/// however they conflict.
struct NaivePacking {
  uint64_t packets = 0;
  uint64_t passes = 0;     ///< Sum over packets of the most keys that share an array.
  uint64_t conflicts = 0;  ///< Keys that find their array taken in their packet.
};
NaivePacking pack_naively(const Placement& placement, std::span<const uint32_t> ranks);

}  // namespace sumcast::hotset
