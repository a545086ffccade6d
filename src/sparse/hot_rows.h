// The hot rows at a worker: replicas with their optimiser's state, moved by the aggregator's sums.
//
// All workers hold the same hot keys in the same slots and move them by the same sums, so replicas
// stay equal bit for bit without anybody sending rows (design rule 5S.2). Slots follow the order in
// which the keys are given, hottest first: neighbours in heat share a cell (numeric/rows.h), so
// that the cells of the hottest are full and few.
//
// Single-threaded; it knows no network.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/result.h"
#include "table/oldest_first.h"
#include "table/row_table.h"

namespace sumcast::sparse {

class HotRows {
 public:
  /// kInvalidArgument: a key twice.
  static Result<HotRows> create(const table::TableShape& shape, std::span<const uint64_t> keys);

  uint32_t slots() const { return static_cast<uint32_t>(table_.size()); }
  /// kNone: the key is cold.
  uint32_t slot_of(uint64_t key) const { return table_.find(key); }
  uint64_t key(uint32_t slot) const { return table_.key(slot); }
  const float* row(uint32_t slot) const { return table_.record(slot); }
  float* record(uint32_t slot) { return table_.record(slot); }

  /// A batch's slots, one by one: false if it had this one already.
  void begin_batch() { ++batch_; }
  bool add_to_batch(uint32_t slot) { return std::exchange(batch_of_[slot], batch_) != batch_; }

  /// A worker's addends of one round's sum.
  struct Addends {
    std::vector<uint32_t> touched;  ///< Slots, ascending.
    std::vector<float> rows;        ///< f32[touched][width]
  };
  /// What comes back.
  struct Sums {
    std::vector<float> rows;        ///< f32[slots][width]
    std::vector<uint64_t> present;  ///< Bit per slot: somebody touched it.
  };
  /// What this worker adds to the round's sum: `gradients[i]` belongs to `slots[i]`, in any order,
  /// slots distinct. Copies them.
  void gather(std::span<const uint32_t> slots, std::span<const float* const> gradients,
              Addends& out);
  /// Makes room for a round's sums, with no slot present.
  void prepare(Sums& sums) const;
  /// All records are written.
  void begin();
  /// Moves every row whose sum is present, by step `now` of the job and those before it. @return
  /// rows moved. Where rows come and go (P24) keys that are not admitted are counted alone, and
  /// those that go with this step are as new.
  size_t apply(const Sums& sums, uint64_t now, float rate);

  /// Slots moved since the last flush that ended, of `worker`'s share (slot mod workers),
  /// ascending. They stay due until end_flush().
  std::vector<uint32_t> begin_flush(uint32_t worker, uint32_t workers);
  void end_flush() { flushing_.assign(flushing_.size(), 0); }

 private:
  explicit HotRows(const table::TableShape& shape) : table_(shape) {}

  bool is_admitted(uint32_t slot, uint32_t now);
  void evict(uint32_t now);
  void note_moved(uint32_t slot) { moved_[slot / 64] |= uint64_t{1} << (slot % 64); }

  table::RowTable table_;
  table::OldestFirst by_age_;       // Where rows go.
  std::vector<uint32_t> order_;     // Scratch of gather().
  std::vector<uint64_t> moved_;     // Bit per slot: since the last flush began.
  std::vector<uint64_t> flushing_;  // Bit per slot: may not have reached its server yet.
  std::vector<uint64_t> batch_of_;  // By slot: the last batch that had it.
  uint64_t batch_ = 0;
};

}  // namespace sumcast::sparse
