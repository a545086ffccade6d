// A link's way out, second half: from its queue to the kernel.
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>

#include "net/descriptor.h"
#include "ps/link.h"

namespace sumcast::ps {
namespace {

constexpr size_t kPartsMax = 64;
/// A system call holds the connection as long as it copies: over loopback several of this size let
/// the receiver follow where one of all that the kernel takes (4 MB) does not.
constexpr size_t kWrittenMax = 1 << 20;
/// Sealing takes much longer than writing: so much is some ms even on a processor that others use.
constexpr size_t kSealedAtOnce = 4 << 20;
/// Where priorities count so much is taken at once: what is taken is not overtaken any more.
constexpr size_t kTakenMin = 64 << 10;

}  // namespace

WriteVerdict Link::write(size_t budget) {
  std::unique_lock lock(send_mutex_);
  if (failed_) return WriteVerdict::kFailed;
  if (busy_) return WriteVerdict::kDrained;
  busy_ = true;
  if (sealed_) budget = std::min(budget, kSealedAtOnce);
  last_write_ns_.store(net::monotonic_now().ns, std::memory_order_relaxed);
  WriteVerdict verdict = WriteVerdict::kDrained;
  std::vector<iovec> parts;
  while (verdict == WriteVerdict::kDrained) {
    if (has_written_all()) {
      if (queue_.empty()) waiting_.take(kTakenMin, [this](const OutFrame& next) { append(next); });
      if (queue_.empty()) break;
      writing_.swap(queue_);
    }
    if (budget == 0) {
      verdict = WriteVerdict::kPending;
      break;
    }
    lock.unlock();
    prepare(parts);
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = parts.size();
    const ssize_t sent = ::sendmsg(fd(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    const int error = errno;
    const size_t frames = sent > 0 ? advance(static_cast<size_t>(sent)) : 0;
    lock.lock();
    if (sent >= 0) {
      queued_bytes_ -= static_cast<size_t>(sent);
      budget -= std::min(budget, static_cast<size_t>(sent));
      queued_frames_ -= frames;
    } else if (error == EAGAIN || error == EWOULDBLOCK) {
      verdict = WriteVerdict::kPending;
    } else if (error != EINTR) {
      verdict = WriteVerdict::kFailed;
      failed_ = true;
      queue_.clear();
      writing_.clear();
      waiting_.clear();
      if (sealed_) (void)sealed_->advance(sealed_->bytes().size());
      queued_bytes_ = queued_frames_ = 0;
    }
  }
  busy_ = false;
  return verdict;
}

/// Of what the writer has taken.
bool Link::has_written_all() const {
  return writing_.empty() && (!sealed_ || sealed_->bytes().empty());
}

/// The first parts of what is being written.
size_t Link::prepare(std::vector<iovec>& parts) {
  parts.clear();
  if (sealed_) {
    if (sealed_->bytes().empty()) sealed_->fill(writing_);
    parts.push_back({const_cast<char*>(sealed_->bytes().data()), sealed_->bytes().size()});
    return parts.size();
  }
  size_t skip = written_, room = kWrittenMax;
  for (size_t i = 0; i < writing_.size() && parts.size() < kPartsMax && room > 0; ++i) {
    const Piece& piece = writing_[i];
    const size_t bytes = std::min(room, piece.size() - skip);
    parts.push_back({const_cast<char*>(piece.data()) + skip, bytes});
    room -= bytes;
    skip = 0;
  }
  return parts.size();
}

/// Returns how many frames are gone with these bytes.
size_t Link::advance(size_t bytes) {
  if (sealed_) return sealed_->advance(bytes);
  size_t frames = 0;
  bytes += written_;
  while (!writing_.empty() && bytes >= writing_.front().size()) {
    bytes -= writing_.front().size();
    frames += writing_.front().ends;
    writing_.pop_front();
  }
  written_ = bytes;
  return frames;
}

size_t Link::queued_frames() const {
  const std::lock_guard lock(send_mutex_);
  return queued_frames_;
}

}  // namespace sumcast::ps
