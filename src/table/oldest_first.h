// Keys by when they were last touched, oldest first; of equally old ones the smallest.
//
// A heap of lower bounds: touching a key costs nothing here, since its entry keeps the time at
// which it was put in. Only when an entry comes up is the owner asked for the key's time now; if it
// was touched meanwhile the entry goes back with that. So each key is moved at most once per pop
// that reaches it, and what comes out is exactly the oldest.
//
// Entries of keys that are gone are dropped when they come up; they are as old as the oldest at
// most.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <queue>
#include <utility>
#include <vector>

namespace sumcast::table {

class OldestFirst {
 public:
  /// A key that was not there, or is again.
  void add(uint64_t key, uint32_t touched) { heap_.push({touched, key}); }

  /// The oldest key that was touched before `limit`, taken out; nothing if there is none.
  ///
  /// @param time_of  when a key was last touched; nothing: it is gone.
  template <typename TimeOf>
  std::optional<uint64_t> take_before(uint32_t limit, const TimeOf& time_of) {
    while (!heap_.empty() && heap_.top().first < limit) {
      const Entry top = heap_.top();
      // A key that went and came back may have two.
      while (!heap_.empty() && heap_.top() == top) heap_.pop();
      const std::optional<uint32_t> now = time_of(top.second);
      if (!now) continue;
      if (*now == top.first) return top.second;
      heap_.push({*now, top.second});
    }
    return std::nullopt;
  }

 private:
  using Entry = std::pair<uint32_t, uint64_t>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> heap_;
};

}  // namespace sumcast::table
