// TcpConnection's frames. Control traffic is small and rare, so clarity comes before copies here.
#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "net/tcp.h"

namespace sumcast::net {
namespace {

constexpr size_t kLengthBytes = 4;
constexpr size_t kFirstStorageBytes =
    4096;  // Most frames fit; memory for many idle peers is small.
constexpr size_t kReadBudgetBytes = 256 << 10;

void write_length(uint32_t length, std::byte* at) {
  for (int i = 0; i < 4; ++i) at[i] = std::byte(length >> (8 * i) & 0xFF);
}

uint32_t read_length(const std::byte* at) {
  uint32_t length = 0;
  for (int i = 0; i < 4; ++i) length |= std::to_integer<uint32_t>(at[i]) << (8 * i);
  return length;
}

}  // namespace

QueueVerdict TcpConnection::queue_frame(std::span<const std::byte> frame) {
  if (frame.size() > options_.frame_bytes_max) return QueueVerdict::kTooLong;
  if (queued_bytes() + kLengthBytes + frame.size() > options_.queue_bytes_max) {
    return QueueVerdict::kFull;
  }
  if (sent_ > 0) {  // What is sent is dropped here, once per frame at most, not on each flush.
    outgoing_.erase(outgoing_.begin(), outgoing_.begin() + static_cast<ptrdiff_t>(sent_));
    sent_ = 0;
  }
  std::byte length[kLengthBytes];
  write_length(static_cast<uint32_t>(frame.size()), length);
  outgoing_.insert(outgoing_.end(), length, length + kLengthBytes);
  outgoing_.insert(outgoing_.end(), frame.begin(), frame.end());
  return QueueVerdict::kQueued;
}

FlushVerdict TcpConnection::flush() {
  while (sent_ < outgoing_.size()) {
    const ssize_t sent = ::send(fd_.get(), outgoing_.data() + sent_, outgoing_.size() - sent_,
                                MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent >= 0) {
      sent_ += static_cast<size_t>(sent);
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      return FlushVerdict::kPending;
    } else if (errno != EINTR) {
      error_number_ = errno;
      return FlushVerdict::kFailed;
    }
  }
  outgoing_.clear();
  sent_ = 0;
  return FlushVerdict::kDrained;
}

ReadVerdict TcpConnection::read_frames(
    const std::function<bool(std::span<const std::byte>)>& on_frame) {
  ReadVerdict verdict = deliver(on_frame);  // What a stop left behind.
  size_t budget = kReadBudgetBytes;
  while (verdict == ReadVerdict::kOpen && ended_ == ReadVerdict::kOpen && budget > 0) {
    const size_t before = received_;
    ended_ = receive_more(budget);
    if (ended_ == ReadVerdict::kOpen && received_ == before) break;  // Nothing more has come.
    verdict = deliver(on_frame);
  }
  return verdict == ReadVerdict::kOpen ? ended_ : verdict;
}

/// Receives once, into storage that grows with what has arrived, never with what is announced.
/// kOpen with nothing added means that nothing waits.
ReadVerdict TcpConnection::receive_more(size_t& budget) {
  if (received_ == incoming_.size()) {
    const size_t most = kLengthBytes + size_t{options_.frame_bytes_max};
    const size_t wanted = std::max(kFirstStorageBytes, 2 * incoming_.size());
    incoming_.resize(std::min(wanted, std::max(most, kFirstStorageBytes)));
  }
  for (;;) {
    const ssize_t got =
        ::recv(fd_.get(), incoming_.data() + received_, incoming_.size() - received_, MSG_DONTWAIT);
    if (got > 0) {
      received_ += static_cast<size_t>(got);
      budget -= std::min(budget, static_cast<size_t>(got));
      return ReadVerdict::kOpen;
    }
    if (got == 0) return ReadVerdict::kEnded;
    if (errno == EAGAIN || errno == EWOULDBLOCK) return ReadVerdict::kOpen;
    if (errno == EINTR) continue;
    error_number_ = errno;
    return ReadVerdict::kFailed;
  }
}

/// Hands out all whole frames in storage and moves the rest to its front.
ReadVerdict TcpConnection::deliver(
    const std::function<bool(std::span<const std::byte>)>& on_frame) {
  ReadVerdict verdict = ReadVerdict::kOpen;
  size_t at = 0;
  while (verdict == ReadVerdict::kOpen && received_ - at >= kLengthBytes) {
    const size_t length = read_length(incoming_.data() + at);
    if (length > options_.frame_bytes_max) {
      ended_ = verdict = ReadVerdict::kTooLong;
      break;
    }
    if (received_ - at - kLengthBytes < length) break;
    const std::span<const std::byte> frame(incoming_.data() + at + kLengthBytes, length);
    at += kLengthBytes + length;
    if (!on_frame(frame)) verdict = ReadVerdict::kStopped;
  }
  if (at > 0) {
    std::memmove(incoming_.data(), incoming_.data() + at, received_ - at);
    received_ -= at;
  }
  return verdict;
}

std::string TcpConnection::failure_text() const {
  const std::string peer = remote_.text();
  if (error_number_ == ECONNRESET || error_number_ == EPIPE) {
    return peer + " reset the connection";
  }
  if (error_number_ == ETIMEDOUT) return peer + " has stopped to answer";
  if (error_number_ != 0) {
    return fmt::format("the connection to {} broke: {}", peer,
                       std::system_category().message(error_number_));
  }
  if (ended_ == ReadVerdict::kTooLong) {
    return fmt::format("{} announced a frame of more than {} bytes; it may speak another protocol",
                       peer, options_.frame_bytes_max);
  }
  if (ended_ == ReadVerdict::kEnded) {
    return peer + (received_ > 0 ? " closed the connection in the middle of a frame"
                                 : " closed the connection");
  }
  return "the connection to " + peer + " is open";
}

}  // namespace sumcast::net
