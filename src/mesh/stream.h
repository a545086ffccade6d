// One TCP connection between two ranks, as the pump uses it: bytes out, bytes in, and a way to
// stop.
//
// The connection is blocking on purpose: a rank that can only wait for its peer does so inside
// recv(), one system call instead of three (try, poll, take). The price is that recv() knows no
// deadline; it returns every kReceiveTick, and the caller looks at its clock then. Whoever must not
// block passes MSG_DONTWAIT.
//
// Used by one thread at a time, but for shut(), which any thread may call.
#pragma once

#include <sys/uio.h>

#include <atomic>
#include <cstddef>
#include <span>
#include <string>

#include "base/result.h"
#include "base/time.h"
#include "net/tcp.h"

namespace sumcast::mesh {

/// How long a blocking receive waits at most before it returns with nothing.
inline constexpr Duration kReceiveTick = 100ms;

/// What one attempt to move bytes came to.
struct Moved {
  size_t bytes = 0;
  int error_number = 0;  ///< An errno, or kPeerClosed; 0: nothing is wrong.
};
inline constexpr int kPeerClosed = -1;

class Stream {
 public:
  /// @param peer  how errors name the other end: "rank 3 at 10.77.1.4:40001".
  Stream(net::TcpConnection connection, std::string peer)
      : connection_(std::move(connection)), peer_(std::move(peer)) {}

  /// For the handshake, before become_blocking().
  net::TcpConnection& connection() { return connection_; }
  const std::string& peer() const { return peer_; }
  int fd() const { return connection_.fd(); }

  /// Ends the handshake: from now on receive() blocks. Errors: kSystem.
  Result<void> become_blocking();

  /// Sends what fits into the send buffer; never blocks.
  Moved send(std::span<iovec> parts);
  /// Takes what has come. With `wait`: at least one byte, or nothing after kReceiveTick.
  Moved receive(std::span<iovec> parts, bool wait);

  /// The kernel wakes a receiver once so many bytes are there. Cheap if nothing changes.
  void set_low_water(size_t bytes);

  /// Ends what this side sends, behind what the kernel has already taken.
  void end_output() noexcept;
  /// Ends the stream both ways; a blocked receive returns. Any thread, any number of times.
  void shut() noexcept;
  bool is_shut() const { return shut_.load(std::memory_order_acquire); }

 private:
  net::TcpConnection connection_;
  std::string peer_;
  size_t low_water_ = 1;
  std::atomic<bool> shut_{false};
};

}  // namespace sumcast::mesh
