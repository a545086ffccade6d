// A link's way out.
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "net/descriptor.h"
#include "ps/block_pool.h"
#include "ps/link.h"

namespace sumcast::ps {
namespace {

/// Arrays up to this size are copied into the queue: a part of a system call's list costs more.
constexpr size_t kCopied = 2048;
constexpr size_t kTailMax = 64 << 10;
constexpr size_t kPartsMax = 64;
/// A system call holds the connection as long as it copies: over loopback several of this size let
/// the receiver follow where one of all that the kernel takes (4 MB) does not.
constexpr size_t kWrittenMax = 1 << 20;

/// Where copied bytes go: behind the last piece, if that is one of copied bytes with room.
template <typename Pieces>
std::vector<char>& tail(Pieces& pieces) {
  if (pieces.empty() || pieces.back().bytes.empty() || pieces.back().bytes.size() >= kTailMax) {
    pieces.emplace_back();
  }
  return pieces.back().bytes;
}

template <typename Pieces>
void copy_in(Pieces& pieces, const void* from, size_t bytes) {
  const auto* const begin = static_cast<const char*>(from);
  auto& to = tail(pieces);
  to.insert(to.end(), begin, begin + bytes);
}

template <typename Pieces>
void pad(Pieces& pieces, size_t bytes) {
  constexpr char kZeros[8] = {};
  if (const size_t gap = padded(bytes) - bytes; gap > 0) copy_in(pieces, kZeros, gap);
}

/// Puts a frame behind what is there. Returns its bytes.
/// @param lent  which arrays are loans: a bit for each.
template <typename Pieces>
size_t lay_out(Pieces& pieces, const FrameHeader& header,
               const std::vector<::ps::SArray<char>>& arrays,
               const std::vector<::ps::DataType>& types, std::string_view body, uint32_t lent = 0) {
  copy_in(pieces, &header, sizeof header);
  for (size_t i = 0; i < arrays.size(); ++i) {
    const uint64_t word = table_word(types[i], arrays[i].size(), (lent >> i & 1) != 0);
    copy_in(pieces, &word, sizeof word);
  }
  if (!body.empty()) {
    copy_in(pieces, body.data(), body.size());
    pad(pieces, body.size());
  }
  for (const auto& array : arrays) {
    if (array.empty()) continue;
    if (array.size() <= kCopied) {
      copy_in(pieces, array.data(), array.size());
    } else {
      pieces.emplace_back();
      pieces.back().array = array;
    }
    pad(pieces, array.size());
  }
  return kHeaderBytes + static_cast<size_t>(header.payload_bytes);
}

/// Which arrays are worth lending: a bit for each.
uint32_t lendable(const std::vector<::ps::SArray<char>>& arrays) {
  uint32_t bits = 0;
  for (size_t i = 0; i < arrays.size(); ++i) {
    if (arrays[i].size() >= kLentBytesMin) bits |= 1u << i;
  }
  return bits;
}

}  // namespace

size_t Link::send(FrameHeader header, const std::vector<::ps::SArray<char>>& arrays,
                  const std::vector<::ps::DataType>& types, std::string_view body) {
  const std::lock_guard lock(send_mutex_);
  if (failed_) return 0;
  if (table_) {
    header.sequence = ++data_sequence_;
    OutFrame frame;
    lay_out(frame, header, arrays, types, body);
    table_->push(std::move(frame));
    table_->due(net::monotonic_now(), [&](uint64_t, const OutFrame& due) { enqueue(due); });
  } else if (send_seal_) {
    OutFrame frame;
    lay_out(frame, header, arrays, types, body);
    enqueue(frame);
  } else if (uint32_t lent = lendable(arrays); lent != 0 && may_lend) {
    auto copies = arrays;
    lend(header, copies, lent);
    queued_bytes_ += lay_out(queue_, header, copies, types, body, lent);
  } else {
    queued_bytes_ += lay_out(queue_, header, arrays, types, body);
  }
  return queued_bytes_;
}

/// Puts loans in the place of arrays, which are kept until they return. Under the lock.
void Link::lend(FrameHeader& header, std::vector<::ps::SArray<char>>& arrays, uint32_t lent) {
  for (size_t i = 0; i < arrays.size(); ++i) {
    if ((lent >> i & 1) == 0) continue;
    const Loan loan{reinterpret_cast<uint64_t>(arrays[i].data()), arrays[i].size(), next_loan_++};
    header.payload_bytes += sizeof loan;
    header.payload_bytes -= padded(arrays[i].size());
    loans_.emplace(loan.id, arrays[i]);
    ::ps::SArray<char> stand_in;
    stand_in.CopyFrom(reinterpret_cast<const char*>(&loan), sizeof loan);
    arrays[i] = stand_in;
  }
}

void Link::on_return(uint64_t loan) {
  ::ps::SArray<char> array;  // Released without the lock: its deleter is the program's.
  const std::lock_guard lock(send_mutex_);
  const auto it = loans_.find(loan);
  if (it == loans_.end()) return;
  array = std::move(it->second);
  loans_.erase(it);
}

void Link::send_return(uint64_t loan) { send_short(FrameKind::kReturn, loan); }
void Link::send_ack(uint64_t next) { send_short(FrameKind::kAck, next); }

/// Queues a whole frame, sealed if need be. Under the lock.
void Link::enqueue(const OutFrame& frame) {
  size_t bytes = 0;
  for (const Piece& piece : frame) bytes += piece.size();
  if (!send_seal_) {
    for (const Piece& piece : frame) queue_.push_back(piece);
  } else {
    const std::shared_ptr<char> block = make_block(bytes + auth::kSealBytes);
    size_t at = 0;
    for (const Piece& piece : frame) {
      std::memcpy(block.get() + at, piece.data(), piece.size());
      at += piece.size();
    }
    const auth::SealTag tag =
        send_seal_->seal({reinterpret_cast<const std::byte*>(block.get()), bytes});
    std::memcpy(block.get() + bytes, tag.data(), tag.size());
    bytes += auth::kSealBytes;
    Piece piece;
    piece.array = ::ps::SArray<char>(block.get(), bytes);
    piece.array.ptr() = block;
    queue_.push_back(std::move(piece));
  }
  queued_bytes_ += bytes;
}

WriteVerdict Link::write() {
  std::unique_lock lock(send_mutex_);
  if (failed_) return WriteVerdict::kFailed;
  if (busy_) return WriteVerdict::kDrained;
  busy_ = true;
  last_write_ns_.store(net::monotonic_now().ns, std::memory_order_relaxed);
  WriteVerdict verdict = WriteVerdict::kDrained;
  std::vector<iovec> parts;
  while (verdict == WriteVerdict::kDrained) {
    if (writing_.empty()) {
      if (queue_.empty()) break;
      writing_.swap(queue_);
    }
    lock.unlock();
    prepare(parts);
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = parts.size();
    const ssize_t sent = ::sendmsg(fd(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    const int error = errno;
    if (sent > 0) advance(static_cast<size_t>(sent));
    lock.lock();
    if (sent >= 0) {
      queued_bytes_ -= static_cast<size_t>(sent);
    } else if (error == EAGAIN || error == EWOULDBLOCK) {
      verdict = WriteVerdict::kPending;
    } else if (error != EINTR) {
      verdict = WriteVerdict::kFailed;
      failed_ = true;
      queue_.clear();
      writing_.clear();
      queued_bytes_ = 0;
    }
  }
  busy_ = false;
  return verdict;
}

/// The first parts of what is being written.
size_t Link::prepare(std::vector<iovec>& parts) const {
  parts.clear();
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

void Link::advance(size_t bytes) {
  bytes += written_;
  while (!writing_.empty() && bytes >= writing_.front().size()) {
    bytes -= writing_.front().size();
    writing_.pop_front();
  }
  written_ = bytes;
}

bool Link::has_queued() const {
  const std::lock_guard lock(send_mutex_);
  return !failed_ && queued_bytes_ > 0;
}

bool Link::is_idle() const {
  const std::lock_guard lock(send_mutex_);
  return failed_ || (queued_bytes_ == 0 && loans_.empty() && (!table_ || table_->empty()));
}

void Link::enable_resend(const core::RttEstimator::Config& config) {
  const std::lock_guard lock(send_mutex_);
  table_.emplace(config);
}

void Link::on_ack(uint64_t next, Instant now) {
  const std::lock_guard lock(send_mutex_);
  if (!table_) return;
  table_->on_ack(next, now);
  table_->due(now, [&](uint64_t, const OutFrame& frame) { enqueue(frame); });
}

Instant Link::repeat(Instant now) {
  const std::lock_guard lock(send_mutex_);
  if (!table_ || failed_) return Instant::never();
  if (table_->next_due() <= now) {
    table_->due(now, [&](uint64_t, const OutFrame& frame) { enqueue(frame); });
  }
  return table_->next_due();
}

void Link::send_short(FrameKind kind, uint64_t sequence) {
  FrameHeader header;
  header.kind = kind;
  header.sequence = sequence;
  const std::lock_guard lock(send_mutex_);
  if (failed_) return;
  if (send_seal_) {
    OutFrame frame;
    lay_out(frame, header, {}, {}, {});
    enqueue(frame);
  } else {
    queued_bytes_ += lay_out(queue_, header, {}, {}, {});
  }
}

uint64_t Link::repeats() const {
  const std::lock_guard lock(send_mutex_);
  return table_ ? table_->repeats() : 0;
}

}  // namespace sumcast::ps
