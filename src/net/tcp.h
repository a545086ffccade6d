// TCP for control: connections that carry frames and never block, and bulk transfer for baselines.
//
// A frame is a 4-byte little-endian length and as many bytes. A connection belongs to an event
// loop: frames are queued and flushed as far as the kernel takes them, and read as far as they have
// come. It does not know what a frame says, nor who the peer is; that is for auth/ and control/.
// Sizes are bounded both ways: a peer that announces too much is cut off before any of it is
// stored, and memory for a frame grows only as its bytes arrive.
//
// The bulk calls (send_all, receive_all, exchange) move bare bytes and wait with a deadline. They
// serve the ring baseline, whose connections carry no frames.
//
// A connection is used by one thread at a time. Deadlines are points on CLOCK_MONOTONIC.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "net/address.h"
#include "net/descriptor.h"

namespace sumcast::net {

struct TcpOptions {
  uint32_t frame_bytes_max = 1 << 20;   ///< Longest frame accepted and sent, without its length.
  uint32_t queue_bytes_max = 16 << 20;  ///< Queued but unsent bytes: a peer that does not read.
  Duration user_timeout = 10s;  ///< Sent but unacknowledged for so long: the connection is dead.
};

enum class QueueVerdict : uint8_t {
  kQueued = 0,
  kTooLong = 1,  ///< Above frame_bytes_max.
  kFull = 2,     ///< The peer does not keep up; queue_bytes_max would be exceeded.
};

enum class FlushVerdict : uint8_t {
  kDrained = 0,  ///< All is in the kernel's hands.
  kPending = 1,  ///< Poll for writable, then flush again.
  kFailed = 2,   ///< The connection is gone; see failure_text().
};

enum class ReadVerdict : uint8_t {
  kOpen = 0,     ///< All that has come was delivered; poll for more.
  kStopped = 1,  ///< The callback asked to stop; call again, since poll does not see what is left.
  kEnded = 2,    ///< The peer closed; all whole frames before that were delivered.
  kFailed = 3,   ///< The connection broke; see failure_text().
  kTooLong = 4,  ///< The peer announced a frame above frame_bytes_max. Close it.
};

class TcpConnection {
 public:
  /// Takes a connected socket over; makes it non-blocking and sets TCP_NODELAY and the timeout.
  static Result<TcpConnection> adopt(FileDescriptor fd, const TcpOptions& options);

  const Endpoint& local() const { return local_; }
  const Endpoint& remote() const { return remote_; }  ///< IPv4 peers as IPv4, never mapped.
  int fd() const { return fd_.get(); }

  /// Copies the frame into the queue; call flush() after the last of several.
  QueueVerdict queue_frame(std::span<const std::byte> frame);
  FlushVerdict flush();
  size_t queued_bytes() const { return outgoing_.size() - sent_; }

  /// Reads what has come and calls `on_frame` once per whole frame, in order. The span is valid
  /// during the call; `on_frame` returns false to stop reading, and must not touch the connection
  /// but to queue frames. At most about 256 KiB are read per call, for the sake of the others in
  /// the event loop. Once a verdict is not kOpen or kStopped it stays.
  ReadVerdict read_frames(const std::function<bool(std::span<const std::byte>)>& on_frame);

  /// One sentence on how the connection ended: "10.0.0.1:4711 closed the connection".
  std::string failure_text() const;

  /// Sends or receives all of a span, waiting as needed. After an error (kUnavailable, kTimeout) an
  /// unknown part was moved, so the connection is of no more use.
  Result<void> send_all(std::span<const std::byte> bytes, Instant deadline);
  Result<void> receive_all(std::span<std::byte> bytes, Instant deadline);
  friend Result<void> exchange(TcpConnection& to, std::span<const std::byte> out,
                               TcpConnection& from, std::span<std::byte> in, Instant deadline);

 private:
  TcpConnection(FileDescriptor fd, const TcpOptions& options)
      : fd_(std::move(fd)), options_(options) {}

  ReadVerdict deliver(const std::function<bool(std::span<const std::byte>)>& on_frame);
  ReadVerdict receive_more(size_t& budget);
  Error broken(int error_number);

  FileDescriptor fd_;
  TcpOptions options_;
  Endpoint local_, remote_;
  std::vector<std::byte> outgoing_;  ///< Bytes before sent_ are in the kernel's hands.
  size_t sent_ = 0;
  std::vector<std::byte> incoming_;  ///< Storage; [0, received_) are bytes of unfinished frames.
  size_t received_ = 0;
  ReadVerdict ended_ = ReadVerdict::kOpen;
  int error_number_ = 0;
};

/// Sends `out` on one connection while receiving `in` from another (or the same), whichever is
/// ready; both are complete on return. The step of a ring: with two separate calls all members
/// could wait for each other with full buffers.
Result<void> exchange(TcpConnection& to, std::span<const std::byte> out, TcpConnection& from,
                      std::span<std::byte> in, Instant deadline);

/// Bounds what a connection's peer may have on its way to us, from now on: we advertise a window of
/// about so many bytes, never twice as many, as long as they are read. Not below four of its
/// segments, for TCP stalls with less.
///
/// @return 0, or the errno of what failed: the kernel's choice stays.
int bound_inflow(int fd, size_t bytes);

class TcpListener {
 public:
  /// Listens on `local` (port 0 takes any free one). "[::]:port" takes IPv4 peers too. Connections
  /// that are accepted get `options`. Errors: kUnavailable (port taken, by whom if known), kSystem.
  static Result<TcpListener> open(const Endpoint& local, const TcpOptions& options = {});

  const Endpoint& local() const { return local_; }  ///< With the port that was given.
  int fd() const { return fd_.get(); }              ///< Readable when a peer waits.

  /// The next peer that waits, or nothing. Does not block. Errors: kSystem (out of descriptors).
  Result<std::optional<TcpConnection>> accept();

 private:
  TcpListener(FileDescriptor fd, const TcpOptions& options)
      : fd_(std::move(fd)), options_(options) {}

  FileDescriptor fd_;
  TcpOptions options_;
  Endpoint local_;
};

/// Connects, waiting until `deadline` at most.
///
/// @param bind_local  the address to come from (its port 0 takes any); nullopt: by route.
/// Errors, each naming the peer: kUnavailable (refused, no route, no such local address), kTimeout,
/// kSystem. It does not try again: whether a peer may still be starting is the caller's to know.
Result<TcpConnection> connect_tcp(const Endpoint& remote, const std::optional<Endpoint>& bind_local,
                                  Instant deadline, const TcpOptions& options = {});

}  // namespace sumcast::net
