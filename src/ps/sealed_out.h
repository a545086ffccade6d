// What leaves a connection whose frames are sealed: copies of their bytes, each frame's seal behind
// it.
//
//   pieces   │ header, table │ array ............ │ header ...        what the buffer has room for
//   buffer   │ header, table, array ........ seal │ header ...        is copied, and sealed
//
// Copies, since a program may write into an array that is under way: what was sealed is what is
// sent. A frame's seal is reckoned over many fillings, so that a large frame keeps nobody waiting
// for all of it. It does not know sockets.
#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "auth/control_seal.h"
#include "ps/piece.h"

namespace sumcast::ps {

/// For one thread at a time.
class SealedOut {
 public:
  explicit SealedOut(auth::ControlSeal seal) : seal_(std::move(seal)) {}

  /// Fills the buffer, which is empty, from the front of `pieces`, and takes off what it has copied
  /// wholly. Of these a frame never ends within a piece.
  void fill(std::deque<Piece>& pieces);
  /// What is to be sent next; empty: fill(). Until the next call of fill().
  std::span<const char> bytes() const { return std::span(buffer_).subspan(sent_); }
  /// The first `bytes` of it are gone. Returns how many frames end with them.
  size_t advance(size_t bytes);

 private:
  auth::ControlSeal seal_;
  std::optional<auth::FrameTag> tag_;  ///< Of the frame that has been copied in part.
  size_t copied_ = 0;                  ///< Bytes of the first piece.
  std::vector<char> buffer_;
  std::deque<size_t> ends_;  ///< Of frames, in the buffer.
  size_t sent_ = 0;
};

}  // namespace sumcast::ps
