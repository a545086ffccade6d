// A doubly linked list over slot indices, in arrays: O(1) append and remove, no allocation.
// Used for "slots in the order they were opened" and "slots in the order they were last sent".
#pragma once

#include <cstdint>
#include <span>

#include "base/arena.h"

namespace sumcast::core {

class OrderList {
 public:
  static constexpr uint16_t kNone = 0xFFFF;

  static constexpr size_t bytes_needed(uint16_t slots) { return Arena::bytes_for<Link>(slots); }
  OrderList(uint16_t slots, Arena& arena) : links_(arena.take<Link>(slots)) {}

  uint16_t head() const { return head_; }
  uint16_t next(uint16_t slot) const { return links_[slot].next; }
  bool contains(uint16_t slot) const { return links_[slot].linked; }

  void append(uint16_t slot) {
    SUMCAST_ASSERT(!links_[slot].linked);
    links_[slot] = Link{tail_, kNone, true};
    (tail_ == kNone ? head_ : links_[tail_].next) = slot;
    tail_ = slot;
  }
  void remove(uint16_t slot) {
    const Link link = links_[slot];
    SUMCAST_ASSERT(link.linked);
    (link.previous == kNone ? head_ : links_[link.previous].next) = link.next;
    (link.next == kNone ? tail_ : links_[link.next].previous) = link.previous;
    links_[slot] = Link{};
  }

 private:
  struct Link {
    uint16_t previous = kNone, next = kNone;
    bool linked = false;
  };
  std::span<Link> links_;
  uint16_t head_ = kNone, tail_ = kNone;
};

}  // namespace sumcast::core
