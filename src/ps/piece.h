// A piece of a frame on its way out.
#pragma once

#include <cstddef>
#include <vector>

#include "ps/sarray.h"

namespace sumcast::ps {

/// Bytes that were copied, or an array that was not.
struct Piece {
  std::vector<char> bytes;
  ::ps::SArray<char> array;  ///< Used if `bytes` is empty.
  size_t ends = 0;           ///< So many frames end with this piece, or within it.

  const char* data() const { return bytes.empty() ? array.data() : bytes.data(); }
  size_t size() const { return bytes.empty() ? array.size() : bytes.size(); }
};
/// A frame, its pieces in order.
using OutFrame = std::vector<Piece>;

}  // namespace sumcast::ps
