// A frame on its way in that is too large for the link's buffer: received where it stays.
//
//   stream   header and what precedes the values │ values │ what follows
//   block    header and what precedes the values │ what follows
//   room     values                                (rooms.h; without one all goes into the block)
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstring>
#include <utility>

#include "ps/frame.h"
#include "ps/rooms.h"

namespace sumcast::ps {

/// For one thread at a time.
class LargeFrame {
 public:
  LargeFrame() = default;
  /// @param block  for all of the frame's `whole` bytes.
  LargeFrame(FrameBytes block, size_t whole)
      : block_(std::move(block)), whole_(whole), before_(whole) {}
  /// @param before  bytes of the frame before the values, which go into the room.
  /// @param block   for all but those.
  LargeFrame(FrameBytes block, size_t whole, size_t before, RoomPtr room)
      : block_(std::move(block)), room_(std::move(room)), whole_(whole), before_(before) {}

  bool has_begun() const { return block_ != nullptr; }
  size_t missing() const { return whole_ - got_; }
  size_t got() const { return got_; }
  size_t whole() const { return whole_; }
  const FrameBytes& block() const { return block_; }
  const RoomPtr& room() const { return room_; }

  /// Bytes that have come already; at most missing().
  void take(const char* bytes, size_t count) {
    while (count > 0) {
      const ptrdiff_t taken = fill([&](char* to, size_t space) {
        const size_t part = space < count ? space : count;
        std::memcpy(to, bytes, part);
        return static_cast<ptrdiff_t>(part);
      });
      bytes += taken;
      count -= static_cast<size_t>(taken);
    }
  }

  /// Calls `receive(char* to, size_t space)` once; it returns as recv(2) does. What it returned.
  template <typename Receive>
  ptrdiff_t fill(Receive&& receive) {
    const size_t in_room = room_ != nullptr ? room_->size() : 0;
    ptrdiff_t got = 0;
    if (got_ < before_) {
      got = receive(block_.get() + got_, before_ - got_);
    } else if (got_ < before_ + in_room) {
      got = room_->fill([&](char* to) { return receive(to, before_ + in_room - got_); });
    } else {
      got = receive(block_.get() + got_ - in_room, missing());
    }
    if (got > 0) got_ += static_cast<size_t>(got);
    return got;
  }

 private:
  FrameBytes block_;
  RoomPtr room_;
  size_t whole_ = 0, before_ = 0, got_ = 0;
};

}  // namespace sumcast::ps
