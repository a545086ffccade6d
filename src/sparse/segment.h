// A segment of a server: the rows of its keys, and what all workers did to them in this round.
//
// A round of a segment: every worker's body arrives (in any order, from any thread, one at a time),
// then the last one's thread applies it all: gradients are folded in rank order over the workers
// that pushed a row, each row moves once, and rows are read out. So the bits are those of the
// aggregator's sums followed by the same optimiser (design rule 5S.6).
//
// Where rows come and go (living_rows.h) pulling makes none, so keys are remembered instead of row
// numbers; which of the keys that were pushed have rows is decided when the step is applied.
//
// It knows no messages and no threads: the caller sees to it that one thread at a time uses it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "sparse/living_rows.h"
#include "sparse/options.h"
#include "sparse/row_codec.h"
#include "table/row_table.h"

namespace sumcast::sparse {

class Segment {
 public:
  explicit Segment(const Options& options);

  /// Gradients of the oldest rows that this worker pulled and has not pushed, in that order; those
  /// rows are pushed with it. Kept by reference until apply(). kMismatch if their number is
  /// another; a worker that has pulled none may push none.
  Result<void> add_gradients(uint32_t worker, std::span<const std::byte> encoded, uint32_t rows);
  /// Gradients of rows by key, made where there are none; what was pulled stays as it is. By
  /// reference until apply(). kMismatch: a key twice; kUnavailable: the table is full.
  Result<void> add_gradients_of(uint32_t worker, std::span<const uint64_t> keys,
                                std::span<const std::byte> encoded);
  /// The oldest rows pulled count as pushed, without effect.
  void skip_pulled(uint32_t worker);
  /// Forgets all gradients, and what was pulled: rounds are gone through again.
  void forget_round();
  /// Moves every row that somebody pushed in this round, once, and commits the step. kUnavailable:
  /// a key that is admitted now finds no room; nothing has moved.
  Result<void> apply(uint64_t step, float rate);
  /// The same for the gradients of one worker, whose steps are its own (P21).
  Result<void> apply_alone(uint32_t worker, uint64_t step, float rate);
  /// The last step of this worker that was applied; 0: none yet. Without apply_alone() the same for
  /// all.
  uint64_t committed(uint32_t worker) const { return committed_[worker]; }

  /// What this worker pulls now. Rows are made where there are none. kMismatch: a key twice;
  /// kUnavailable: the table is full. Nothing is pulled then.
  ///
  /// @param is_kept  gradients of these rows will come, behind those of rows pulled before.
  Result<void> set_pulled(uint32_t worker, std::span<const uint64_t> keys, bool is_kept);
  /// What was pulled before will not be pushed.
  void forget_pulled(uint32_t worker) { waiting_[worker].clear(); }
  /// Rows of a checkpoint are written until end_restore(), the last of a key counts.
  ///
  /// @param steps  of the jobs before: rows count on from there.
  void begin_restore(uint64_t steps);
  /// kUnavailable: they are too many.
  Result<void> end_restore();
  /// Reads the rows of set_pulled() as they travel: row_bytes() each.
  void read_rows(uint32_t worker, std::byte* out) const;
  size_t row_bytes() const { return row_codec_.row_bytes(); }

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
  void note_checkpoint(uint32_t number);
  /// Nobody will ask for what moved after a checkpoint before this one, but for all there is.
  void forget_before(uint32_t standing);

  const table::RowTable& table() const { return table_; }

 private:
  /// Rows by number, or where rows come and go by key.
  struct Named {
    std::vector<uint32_t> rows;
    std::vector<uint64_t> keys;
    size_t size() const { return rows.size() + keys.size(); }
  };
  struct Push {
    const std::byte* encoded = nullptr;
    Named of;
  };

  Result<void> name_rows(uint32_t worker, std::span<const uint64_t> keys, Named& named);
  Result<void> find_rows(uint32_t worker, std::span<const uint64_t> keys,
                         std::vector<uint32_t>& rows);
  Result<void> commit();
  Result<void> admit(uint32_t now);
  void move_rows();
  uint32_t now() const;
  void fold_row(size_t place, float* gradient);
  void note_moved(uint32_t row);

  WireFormat wire_;
  uint32_t workers_;
  size_t gradient_bytes_;  // Of one on the wire.
  RowCodec row_codec_;
  table::RowTable table_;
  std::optional<LivingRows> living_;  // Where rows come and go.
  uint64_t steps_before_ = 0;
  bool is_restoring_ = false;
  std::vector<Named> pulled_;               // By worker.
  std::vector<std::deque<Named>> waiting_;  // By worker: kept, oldest first.
  std::vector<Push> pushes_;                // By worker.
  std::vector<uint64_t> committed_;         // By worker.
  uint32_t checkpoint_ = 0;                 // The last one that was taken.
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
