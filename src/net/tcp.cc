// Opening connections: listen, accept, connect. The frames are in tcp_frames.cc, the bulk transfer
// in tcp_bulk.cc.
#include "net/tcp.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <climits>

#include "base/assert.h"
#include "net/port_owner.h"

namespace sumcast::net {
namespace {

constexpr int kBacklog = 1024;  // A whole job may join at once; the kernel caps it at somaxconn.
constexpr size_t kSegmentsMin = 4;  // Of a bounded window.

Result<Endpoint> read_address(int fd, int (*get)(int, sockaddr*, socklen_t*)) {
  Endpoint address;
  socklen_t bytes = Endpoint::kRawBytesMax;
  if (get(fd, address.raw_target(), &bytes) != 0) {
    return fail(system_error("cannot read a connection's address", errno));
  }
  address.assume_filled(bytes);
  return address.unmapped();
}

Result<FileDescriptor> open_socket(Family family) {
  FileDescriptor fd(
      ::socket(static_cast<int>(family), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.is_open()) {
    return fail(system_error(fmt::format("cannot open an {} TCP socket", name_of(family)), errno));
  }
  return fd;
}

Error connect_error(const Endpoint& remote, int error_number) {
  const std::string peer = remote.text();
  switch (error_number) {
    case ECONNREFUSED:
      return {ErrorCode::kUnavailable, peer + " refused the connection: nothing listens there"};
    case ENETUNREACH:
    case EHOSTUNREACH:
    case EHOSTDOWN:
    case ENETDOWN:
      return {ErrorCode::kUnavailable, "no route to " + peer + ", or the host is down"};
    case ETIMEDOUT:
      return {ErrorCode::kTimeout, peer + " does not answer"};
    default:
      return system_error("cannot connect to " + peer, error_number);
  }
}

/// Starts to connect; 0 if it is done or under way, or an errno.
int start_connect(int fd, const Endpoint& remote) {
  for (;;) {
    if (::connect(fd, remote.raw(), remote.raw_bytes()) == 0) return 0;
    if (errno == EINPROGRESS) return 0;
    if (errno != EINTR) return errno;
  }
}

}  // namespace

int bound_inflow(int fd, size_t bytes) {
  tcp_info info{};
  socklen_t size = sizeof info;
  if (::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return errno;
  bytes = std::max(bytes, kSegmentsMin * info.tcpi_advmss);
  // The kernel takes twice as much memory, advertises what may come in it, and tunes it no more.
  // TCP_WINDOW_CLAMP would not do: the kernel forgets it when it learns how large packets are.
  return set_option(fd, SOL_SOCKET, SO_RCVBUF, static_cast<int>(std::min<size_t>(bytes, INT_MAX)));
}

Result<TcpConnection> TcpConnection::adopt(FileDescriptor fd, const TcpOptions& options) {
  TcpConnection connection(std::move(fd), options);
  const int raw = connection.fd();
  const auto local = read_address(raw, ::getsockname);
  if (!local) return fail(local.error());
  const auto remote = read_address(raw, ::getpeername);
  if (!remote) return fail(remote.error());
  connection.local_ = *local;
  connection.remote_ = *remote;
  const auto timeout_ms =
      std::chrono::duration_cast<std::chrono::milliseconds>(options.user_timeout).count();
  int error = make_non_blocking(raw);
  if (error == 0) error = set_option(raw, IPPROTO_TCP, TCP_NODELAY, 1);
  if (error == 0) {
    error = set_option(raw, IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>(timeout_ms));
  }
  if (error != 0)
    return fail(system_error("cannot set up the connection to " + remote->text(), error));
  return connection;
}

Result<TcpListener> TcpListener::open(const Endpoint& local, const TcpOptions& options) {
  if (!local.is_set()) return fail(ErrorCode::kInvalidArgument, "a listener needs an address");
  auto fd = open_socket(local.family());
  if (!fd) return fail(fd.error());
  // Without SO_REUSEADDR a daemon could not restart while old connections are in TIME_WAIT.
  int error = set_option(fd->get(), SOL_SOCKET, SO_REUSEADDR, 1);
  if (error == 0 && local.family() == Family::kIpv6) {
    error = set_option(fd->get(), IPPROTO_IPV6, IPV6_V6ONLY, 0);
  }
  if (error != 0) return fail(system_error("cannot set up a listener", error));
  if (::bind(fd->get(), local.raw(), local.raw_bytes()) != 0 ||
      ::listen(fd->get(), kBacklog) != 0) {
    return fail(bind_error(Transport::kTcp, local, errno));
  }
  TcpListener listener(std::move(*fd), options);
  const auto bound = read_address(listener.fd(), ::getsockname);
  if (!bound) return fail(bound.error());
  listener.local_ = *bound;
  return listener;
}

Result<std::optional<TcpConnection>> TcpListener::accept() {
  for (;;) {
    FileDescriptor fd(::accept4(fd_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (fd.is_open()) {
      auto connection = TcpConnection::adopt(std::move(fd), options_);
      if (connection) return std::optional<TcpConnection>(std::move(*connection));
      continue;  // It was reset before we looked at it: the next one.
    }
    const int error = errno;
    if (error == EAGAIN || error == EWOULDBLOCK) return std::optional<TcpConnection>();
    if (error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM) {
      return fail(system_error("cannot accept a connection on " + local_.text(), error));
    }
    // Everything else is about a peer that went away meanwhile, and accept may be called again.
    SUMCAST_ASSERT(error != EBADF && error != EINVAL && error != ENOTSOCK);
  }
}

Result<TcpConnection> connect_tcp(const Endpoint& remote, const std::optional<Endpoint>& bind_local,
                                  Instant deadline, const TcpOptions& options) {
  if (!remote.is_set()) return fail(ErrorCode::kInvalidArgument, "nowhere to connect to");
  auto fd = open_socket(remote.family());
  if (!fd) return fail(fd.error());
  if (bind_local) {
    // The port is chosen at connect, when the peer is known, so that ports do not run out early.
    set_option(fd->get(), IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1);
    if (::bind(fd->get(), bind_local->raw(), bind_local->raw_bytes()) != 0) {
      return fail(bind_error(Transport::kTcp, *bind_local, errno));
    }
  }
  const Instant begin = monotonic_now();
  int error = start_connect(fd->get(), remote);
  if (error != 0) return fail(connect_error(remote, error));
  if (!wait_ready(fd->get(), POLLOUT, deadline)) {
    const double waited_s = std::chrono::duration<double>(monotonic_now() - begin).count();
    return fail(ErrorCode::kTimeout,
                fmt::format("{} did not answer within {:.1f} s", remote.text(), waited_s));
  }
  error = get_option(fd->get(), SOL_SOCKET, SO_ERROR);
  if (error != 0) return fail(connect_error(remote, error));
  auto connection = TcpConnection::adopt(std::move(*fd), options);
  // A port of this host that nobody listens on may be picked as our own: then TCP's simultaneous
  // open connects the socket to itself.
  if (connection && connection->local() == connection->remote()) {
    return fail(connect_error(remote, ECONNREFUSED));
  }
  return connection;
}

}  // namespace sumcast::net
