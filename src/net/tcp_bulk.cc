// Bulk transfer over connections without frames, for the baselines.
//
// Send and receive take turns as long as either moves, and poll only when neither does: a MiB costs
// a few system calls each way, and no member of a ring waits with both buffers full.
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>

#include "base/assert.h"
#include "net/tcp.h"

namespace sumcast::net {
namespace {

constexpr int kClosed = -1;  // In place of an errno: the peer closed in an orderly way.

/// One attempt. Returns how far the span moved, 0 if it would block, and `error` != 0 if broken.
size_t send_some(int fd, std::span<const std::byte> bytes, int& error) {
  const ssize_t sent = ::send(fd, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  if (sent >= 0) return static_cast<size_t>(sent);
  if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) error = errno;
  return 0;
}

size_t receive_some(int fd, std::span<std::byte> bytes, int& error) {
  const ssize_t got = ::recv(fd, bytes.data(), bytes.size(), MSG_DONTWAIT);
  if (got > 0) return static_cast<size_t>(got);
  if (got == 0) {
    error = kClosed;
  } else if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) {
    error = errno;
  }
  return 0;
}

/// Waits until one of the two can go on. -1 in place of a descriptor leaves it out.
bool wait_for_either(int out_fd, int in_fd, Instant deadline) {
  pollfd entries[2] = {{out_fd, POLLOUT, 0}, {in_fd, POLLIN, 0}};
  for (;;) {
    const timespec timeout = time_left(deadline);
    const int ready =
        ::ppoll(entries, 2, deadline == Instant::never() ? nullptr : &timeout, nullptr);
    if (ready >= 0 || errno != EINTR) return ready > 0;
  }
}

}  // namespace

Error TcpConnection::broken(int error_number) {
  if (error_number == kClosed) {
    ended_ = ReadVerdict::kEnded;
  } else {
    ended_ = ReadVerdict::kFailed;
    error_number_ = error_number;
  }
  return {ErrorCode::kUnavailable, failure_text()};
}

Result<void> exchange(TcpConnection& to, std::span<const std::byte> out, TcpConnection& from,
                      std::span<std::byte> in, Instant deadline) {
  SUMCAST_ASSERT(out.empty() || to.queued_bytes() == 0);
  SUMCAST_ASSERT(in.empty() || from.received_ == 0);
  while (!out.empty() || !in.empty()) {
    int send_error = 0, receive_error = 0;
    const size_t sent = out.empty() ? 0 : send_some(to.fd(), out, send_error);
    const size_t got = in.empty() ? 0 : receive_some(from.fd(), in, receive_error);
    if (send_error != 0) return fail(to.broken(send_error));
    if (receive_error != 0) return fail(from.broken(receive_error));
    out = out.subspan(sent);
    in = in.subspan(got);
    if (sent + got > 0) continue;
    if (wait_for_either(out.empty() ? -1 : to.fd(), in.empty() ? -1 : from.fd(), deadline))
      continue;
    return fail(ErrorCode::kTimeout,
                in.empty() ? fmt::format("{} takes no more data; {} bytes are left to send",
                                         to.remote().text(), out.size())
                           : fmt::format("{} sends no more data; {} bytes are missing",
                                         from.remote().text(), in.size()));
  }
  return {};
}

Result<void> TcpConnection::send_all(std::span<const std::byte> bytes, Instant deadline) {
  return exchange(*this, bytes, *this, {}, deadline);
}

Result<void> TcpConnection::receive_all(std::span<std::byte> bytes, Instant deadline) {
  return exchange(*this, {}, *this, bytes, deadline);
}

}  // namespace sumcast::net
