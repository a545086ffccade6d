#include "mesh/stream.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <cerrno>

#include "net/descriptor.h"

namespace sumcast::mesh {
namespace {

msghdr message_of(std::span<iovec> parts) {
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  return message;
}

bool is_transient(int error_number) {
  return error_number == EAGAIN || error_number == EWOULDBLOCK || error_number == EINTR;
}

}  // namespace

Result<void> Stream::become_blocking() {
  const int flags = ::fcntl(fd(), F_GETFL);
  timeval tick{};
  tick.tv_usec = std::chrono::duration_cast<std::chrono::microseconds>(kReceiveTick).count();
  if (flags < 0 || ::fcntl(fd(), F_SETFL, flags & ~O_NONBLOCK) != 0 ||
      ::setsockopt(fd(), SOL_SOCKET, SO_RCVTIMEO, &tick, sizeof tick) != 0) {
    return fail(net::system_error("cannot set up the stream to " + peer_, errno));
  }
  return {};
}

Moved Stream::send(std::span<iovec> parts) {
  const msghdr message = message_of(parts);
  const ssize_t sent = ::sendmsg(fd(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
  if (sent >= 0) return {static_cast<size_t>(sent), 0};
  return {0, is_transient(errno) ? 0 : errno};
}

Moved Stream::receive(std::span<iovec> parts, bool wait) {
  msghdr message = message_of(parts);
  const ssize_t got = ::recvmsg(fd(), &message, wait ? 0 : MSG_DONTWAIT);
  if (got > 0) return {static_cast<size_t>(got), 0};
  if (got == 0) return {0, kPeerClosed};
  return {0, is_transient(errno) ? 0 : errno};
}

void Stream::set_low_water(size_t bytes) {
  if (bytes == low_water_) return;
  // Where the kernel refuses, wake-ups come more often; nothing else changes.
  net::set_option(fd(), SOL_SOCKET, SO_RCVLOWAT, static_cast<int>(bytes));
  low_water_ = bytes;
}

void Stream::end_output() noexcept { ::shutdown(fd(), SHUT_WR); }

void Stream::shut() noexcept {
  shut_.store(true, std::memory_order_release);
  ::shutdown(fd(), SHUT_RDWR);
}

}  // namespace sumcast::mesh
