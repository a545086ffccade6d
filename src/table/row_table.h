// A table of rows by key: u64 keys (all of them, 0 and 2^64-1 included), rows of f32 made on first
// use, each with its optimiser's state beside it.
//
//   index    u32[power of two]     open addressing on a mix of the key; row number + 1, or 0
//   keys     u64[rows]
//   records  f32[rows][width + state], in pages that never move: pointers to rows stay valid.
//            Where rows come and go (lifecycle.h), their history lies behind the state.
//
// A new row's values depend on the table's seed and its key alone, so that whoever makes it, server
// or worker, in whatever order, makes the same bits.
//
// Single-threaded; it knows no network.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "table/lifecycle.h"
#include "table/optimizer.h"

namespace sumcast::table {

/// Spreads keys evenly over 64 bits; the same on all machines. A bijection (SplitMix64's finisher).
constexpr uint64_t mix_key(uint64_t key) {
  key = (key ^ (key >> 30)) * 0xBF58476D1CE4E5B9u;
  key = (key ^ (key >> 27)) * 0x94D049BB133111EBu;
  return key ^ (key >> 31);
}

/// A hash of a sequence, value by value.
constexpr uint64_t hash_with(uint64_t hash, uint64_t value) {
  return mix_key(hash ^ value) + 0x9E3779B97F4A7C15u;
}

struct TableShape {
  uint32_t width = 1;  ///< f32 lanes of a row, 1..65535.
  Optimizer optimizer;
  float init_scale = 0.0f;             ///< New rows: uniform in [-scale, scale].
  uint64_t seed = 1;                   ///< Of new rows.
  uint64_t rows_max = UINT32_MAX - 1;  ///< Of one table (a server has one per segment).

  Lifecycle life{};  ///< Off: rows are made when they are asked for, and stay.

  Result<void> validate() const;
  size_t record_lanes() const {
    return width + optimizer.state_lanes(width) + (life.is_on() ? kHistoryLanes : 0);
  }
  /// Writes a new row and its state: record_lanes() lanes.
  void make_record(uint64_t key, float* record) const;
  /// Of a record of this shape, whose life is on.
  History history(const float* record) const;
  void set_history(float* record, History history) const;
};

class RowTable {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  /// @pre shape.validate().
  explicit RowTable(const TableShape& shape);

  const TableShape& shape() const { return shape_; }
  /// Rows held. Without erase() their numbers are 0 .. size() - 1.
  size_t size() const { return keys_.size() - free_.size(); }
  /// Numbers of rows are below it.
  size_t end() const { return keys_.size(); }

  /// The row of a key, or kNone.
  uint32_t find(uint64_t key) const;
  /// The row of a key, made if it is not there; kNone if the table is full.
  uint32_t find_or_make(uint64_t key);

  /// Forgets a row, if it is there. Its number may become another key's.
  void erase(uint64_t key);

  /// Of a row that is held.
  uint64_t key(uint32_t row) const { return keys_[row]; }
  /// f32[width] and the state behind it. Valid as long as the table.
  float* record(uint32_t row) {
    return pages_[row / kPageRows].get() + size_t{row % kPageRows} * record_lanes_;
  }
  const float* record(uint32_t row) const {
    return pages_[row / kPageRows].get() + size_t{row % kPageRows} * record_lanes_;
  }
  /// The optimizer's from now on.
  void set_rate(float rate) { shape_.optimizer.rate = rate; }
  /// Moves a row by one round's gradient, f32[width].
  void step(uint32_t row, const float* gradient) {
    float* const at = record(row);
    shape_.optimizer.step(at, at + shape_.width, gradient, shape_.width);
  }

 private:
  static constexpr uint32_t kPageRows = 1024;

  size_t home_of(uint64_t key) const;
  size_t place_of(uint64_t key) const;
  uint32_t new_number(uint64_t key);
  void grow();

  TableShape shape_;
  size_t record_lanes_;
  std::vector<uint32_t> index_;
  uint32_t index_shift_;  // 64 - log2(size of index_).
  std::vector<uint64_t> keys_;
  std::vector<uint32_t> free_;  // Numbers of rows that were erased.
  std::vector<std::unique_ptr<float[]>> pages_;
};

}  // namespace sumcast::table
