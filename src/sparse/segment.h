// A segment of a server: the rows of its keys, and what all workers did to them in this round.
//
// A round of a segment: every worker's body arrives (in any order, from any thread, one at a time),
// then the last one's thread applies it all: gradients are folded in rank order over the workers
// that pushed a row, each row moves once, and rows are read out. So the bits are those of the
// aggregator's sums followed by the same optimiser (design rule 5S.6).
//
// It knows no messages and no threads: the caller sees to it that one thread at a time uses it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/result.h"
#include "sparse/options.h"
#include "table/row_table.h"

namespace sumcast::sparse {

class Segment {
 public:
  explicit Segment(const Options& options);

  /// Gradients of the rows that this worker pulled last, in that order; kept by reference until
  /// apply(). kMismatch if their number is another.
  Result<void> add_gradients(uint32_t worker, std::span<const std::byte> encoded, uint32_t rows);
  /// Forgets them: the round is gone through again.
  void discard_gradients();
  /// Moves every row that somebody pushed in this round, once, and commits the step. @return rows
  /// moved.
  size_t apply(uint64_t step);
  /// The last step that was applied; 0: none yet.
  uint64_t committed() const { return committed_; }

  size_t pulled(uint32_t worker) const { return pulled_[worker].size(); }
  /// What this worker pulls now, and what its next gradients belong to. Rows are made where there
  /// are none. kMismatch: a key twice; kUnavailable: the table is full. The worker then still has
  /// what it pulled before.
  Result<void> set_pulled(uint32_t worker, std::span<const uint64_t> keys);
  /// Reads those rows: f32[keys][width].
  void read_rows(uint32_t worker, float* out) const;

  /// Reads rows with their state, f32[keys][record_lanes]; makes none: keys without a row read as
  /// new ones.
  void read_records(std::span<const uint64_t> keys, float* out) const;
  /// Writes rows with their state. kUnavailable: the table is full.
  Result<void> write_records(std::span<const uint64_t> keys, const float* records);

  /// Rows that moved or were written after checkpoint `base` was taken; 0: that ever did.
  size_t count_moved(uint32_t base) const;
  void each_moved(uint32_t base,
                  const std::function<void(uint64_t key, const float* record)>& take) const;
  /// What is done from now on comes after this checkpoint.
  void note_checkpoint(uint32_t number) { checkpoint_ = number; }

  const table::RowTable& table() const { return table_; }

 private:
  struct Push {
    const std::byte* encoded = nullptr;
    uint32_t rows = 0;
  };

  void fold_row(size_t place, float* gradient);
  void note_moved(uint32_t row);

  WireFormat wire_;
  uint32_t workers_;
  size_t gradient_bytes_;  // Of one row on the wire.
  table::RowTable table_;
  std::vector<std::vector<uint32_t>> pulled_;  // By worker: row numbers.
  std::vector<Push> pushes_;                   // By worker.
  uint64_t committed_ = 0;
  uint32_t checkpoint_ = 0;      // The last one that was taken.
  std::vector<uint32_t> moved_;  // By row number: the checkpoint that it goes into; 0: none.
  // Scratch of apply(), by row number and by place in the list of rows touched.
  std::vector<uint64_t> stamp_;  // When a row was last seen: 64 bits, which never wrap.
  std::vector<uint32_t> place_;
  uint64_t round_stamp_ = 0;
  std::vector<uint32_t> touched_, begin_;
  std::vector<const std::byte*> sources_;
  std::vector<std::byte> sum_;
};

}  // namespace sumcast::sparse
