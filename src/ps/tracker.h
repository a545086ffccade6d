// A customer's requests under way: how many responses each expects and has.
//
// Requests are numbered in order, so they stand in a queue; what is done leaves at the front,
// and old numbers count as done. Numbers wrap after 2^31 - 1 (they are ints of the interface),
// which at 400,000 requests a second is an hour and a half. For one thread at a time.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

namespace sumcast::ps {

class Tracker {
 public:
  /// Before the first request: the number that it gets, where those below were another's.
  void begin_at(uint64_t number) { base_ = number; }
  /// The number that the next request gets, before it wraps.
  uint64_t next() const { return base_ + queue_.size(); }

  /// @param expected  responses that make it done, at least 0.
  /// @param group     the node or group that was asked.
  /// @param asked     the group's nodes whose responses are needed; empty: all.
  int open(int expected, int group, const std::vector<int>& asked = {});

  /// True if the request is done with these.
  bool add(int timestamp, int responses);
  /// A request that has left the queue has had all its responses.
  int responses(int timestamp) const;
  bool is_done(int timestamp) const;

  /// The first reason stays. A request that is done may fail too (a bad answer).
  void fail(int timestamp, const std::string& why);
  /// Null if it has not failed.
  const std::string* failure(int timestamp) const;

  /// Fails all that are not done and have asked this node. `holds(group)`: it is one of the group.
  template <typename Holds>
  void fail_if_asked(int node, Holds&& holds, const std::string& why) {
    for (size_t i = 0; i < queue_.size(); ++i) {
      if (queue_[i].got < queue_[i].expected && holds(queue_[i].group) && needs(queue_[i], node)) {
        failed_.try_emplace(base_ + i, why);
      }
    }
  }

  /// "1 of 2": responses of those expected.
  std::string progress_text(int timestamp) const;
  int group(int timestamp) const;

 private:
  struct Entry {
    int expected = 0, got = 0, group = 0;
    std::vector<int> asked{};
  };

  /// Of all numbers with these 31 bits, the last one opened.
  uint64_t unwrap(int timestamp) const;
  const Entry* find(int timestamp) const;
  static bool needs(const Entry& entry, int node);

  static constexpr size_t kKept = 4096;  ///< Done requests that still know their count.

  std::deque<Entry> queue_;
  uint64_t base_ = 0;  ///< The number of queue_[0].
  std::map<uint64_t, std::string> failed_;
};

}  // namespace sumcast::ps
