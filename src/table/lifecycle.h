// When a key gets a row, and when it loses it (P24).
//
// Time is counted in steps. An *update* of a key is a step in which at least one worker pushed a
// gradient of it. The first `admit_after` updates of a key are counted and dropped; the next one
// makes its row and moves it. A key without update for `evict_after` steps is as new: its row, its
// optimiser's state and its count are gone.
//
//   updates     . 1 . 2 . 3 . . . . .          admit_after 2, evict_after 5
//   state       new 1   2   row             new
//
// What becomes of a key depends on its own updates alone, not on other keys nor on who holds it: so
// servers and workers with hot rows come to the same.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace sumcast::table {

/// What is known of a key beside its row.
struct History {
  uint32_t last = 0;   ///< Step of its last update.
  uint32_t count = 0;  ///< Updates, up to admit_after + 1. 0: a new key.
};
static_assert(sizeof(History) == 2 * sizeof(float));
inline constexpr size_t kHistoryLanes = 2;

struct Lifecycle {
  uint32_t admit_after = 0;  ///< Updates that are dropped before a key gets a row.
  uint32_t evict_after = 0;  ///< Steps without update after which a key is as new; 0: never.

  bool operator==(const Lifecycle&) const = default;
  bool is_on() const { return admit_after != 0 || evict_after != 0; }
  bool has_row(History of) const { return of.count > admit_after; }
  /// Has it been as new since step `now`, or longer? A new key has not: it is.
  bool is_gone(History of, uint32_t now) const {
    return evict_after != 0 && of.count != 0 && now > of.last && now - of.last >= evict_after;
  }
  /// After an update in step `now` of a key that was not gone before it.
  History after_update(History of, uint32_t now) const {
    return {now, std::min(of.count, admit_after) + 1};
  }
};

}  // namespace sumcast::table
