#include "ps/sealed_out.h"

#include <algorithm>

#include "base/assert.h"

namespace sumcast::ps {
namespace {

/// It is still in the processor's cache when it is sent.
constexpr size_t kBufferMax = 256 << 10;

}  // namespace

void SealedOut::fill(std::deque<Piece>& pieces) {
  SUMCAST_ASSERT(bytes().empty());
  buffer_.clear();
  sent_ = 0;
  while (!pieces.empty() && buffer_.size() < kBufferMax) {
    const Piece& piece = pieces.front();
    const size_t part = std::min(piece.size() - copied_, kBufferMax - buffer_.size());
    const size_t at = buffer_.size();
    buffer_.insert(buffer_.end(), piece.data() + copied_, piece.data() + copied_ + part);
    if (!tag_) tag_.emplace(seal_.begin_seal());
    tag_->add(std::as_bytes(std::span(buffer_).subspan(at)));
    copied_ += part;
    if (copied_ < piece.size()) return;
    if (piece.ends > 0) {
      SUMCAST_ASSERT(piece.ends == 1);
      const auth::SealTag seal = seal_.seal(std::move(*tag_));
      tag_.reset();
      const auto* const begin = reinterpret_cast<const char*>(seal.data());
      buffer_.insert(buffer_.end(), begin, begin + seal.size());
      ends_.push_back(buffer_.size());
    }
    pieces.pop_front();
    copied_ = 0;
  }
}

size_t SealedOut::advance(size_t bytes) {
  sent_ += bytes;
  size_t frames = 0;
  for (; !ends_.empty() && ends_.front() <= sent_; ++frames) ends_.pop_front();
  return frames;
}

}  // namespace sumcast::ps
