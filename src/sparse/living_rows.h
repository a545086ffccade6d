// Rows of a segment that come and go (P24): who is admitted, who is evicted, who makes room.
//
//   new key ── updates, dropped ──> candidate ── admit_after of them ──> row
//      ^                               │ evict_after steps without one    │
//      └───────────────────────────────┴──────────────────────────────────┘
//
// Candidates are counted exactly, in a map of bounded size; where it is full the one that was
// touched longest ago is forgotten, and its count begins anew. So a key is admitted too late only
// if more than `candidates_max` other new keys of its segment were touched since its last update;
// none is ever admitted too early. (A sketch would be smaller and admit some too early, depending
// on which other keys there are: then all cold, mixed and all hot would not have the same bits.)
//
// A full table makes room by the row touched longest ago, if rows may go at all (evict_after above
// 0) and it was not touched in this very step.
//
// It knows no workers and no messages. Single-threaded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "table/oldest_first.h"
#include "table/row_table.h"

namespace sumcast::sparse {

class LivingRows {
 public:
  /// @pre shape.life.is_on(). `rows_max` of it is the limit. `rows` is made for the same shape, but
  /// with room for any number; outlives this.
  ///
  /// @param is_saved  checkpoints will be taken.
  LivingRows(const table::TableShape& shape, uint32_t candidates_max, bool is_saved,
             table::RowTable& rows);

  /// An update of these keys in step `now`, which is not before the last one: rows are made for
  /// those that are admitted. kUnavailable: there is no room; nothing was done but counting.
  ///
  /// @param keys  in any order; sorted and made distinct.
  Result<void> update(std::vector<uint64_t>& keys, uint32_t now);
  /// Evicts what had no update for so long that it goes with this step.
  void sweep(uint32_t now);

  /// A record as if read at this moment: f32[record lanes], its history included.
  void read(uint64_t key, float* record) const;
  /// Takes a record over as it is, from whoever held it: a row, a candidate, or as new.
  void write(uint64_t key, const float* record, uint32_t now);
  /// Rows above the limit go, those touched longest ago first. kUnavailable: they may not.
  Result<void> trim();

  /// All that is here is in this checkpoint; changes from now on come after it.
  void note_checkpoint(uint32_t number);
  /// Nobody will ask for what changed after a checkpoint before this one, but for all there is.
  void forget_before(uint32_t standing);
  /// Keys that changed after checkpoint `base`, ascending, each with its record; 0: all that there
  /// are.
  void each_changed(uint32_t base,
                    const std::function<void(uint64_t key, const float* record)>& take) const;
  size_t count_changed(uint32_t base) const;

  size_t candidates() const { return candidates_.size(); }

 private:
  table::History history_of(uint32_t row) const;
  void touch(uint32_t row, uint32_t now);
  bool count_update(uint64_t key, uint32_t now);
  Result<void> make_room(std::span<const uint64_t> keys, uint32_t now);
  void make_row(uint64_t key, table::History history);
  void put_candidate(uint64_t key, table::History history);
  void forget_oldest_candidate();
  void forget(uint64_t key);
  std::optional<uint64_t> oldest_row(uint32_t limit);
  std::optional<uint64_t> oldest_candidate(uint32_t limit);
  std::vector<uint64_t> changed_keys(uint32_t base) const;
  void note_change(uint64_t key);
  bool is_held(uint64_t key) const;

  table::TableShape shape_;
  size_t candidates_max_;
  table::RowTable& rows_;
  std::unordered_map<uint64_t, table::History> candidates_;
  table::OldestFirst by_age_, candidates_by_age_;
  uint32_t checkpoint_ = 0;
  struct Change {
    uint32_t number = 0;    ///< Of the checkpoint that it goes into.
    bool is_saved = false;  ///< An earlier one may hold the key.
  };
  bool is_saved_;  ///< There are checkpoints at all.
  /// Of keys that are held, and of those that are as new and must be said to be so.
  std::unordered_map<uint64_t, Change> changes_;
};

}  // namespace sumcast::sparse
