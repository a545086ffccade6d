// Waiting for sockets: epoll with a nanosecond timeout, and a way to end the wait from elsewhere.
//
// Retransmission timers run below a millisecond, so the timeout goes through epoll_pwait2; kernels
// before 5.11 lack it and get milliseconds, rounded up. It does not know what a token means.
#pragma once

#include <cstdint>
#include <span>

#include "base/result.h"
#include "base/time.h"
#include "net/descriptor.h"

namespace sumcast::net {

/// What a descriptor is watched for. Errors and hang-ups are always reported.
enum class Interest : uint8_t { kRead = 1, kWrite = 2, kReadWrite = 3 };

struct Event {
  uint64_t token = 0;
  bool readable = false;  ///< There is something to read: data, an end of stream, or an error.
  bool writable = false;
  bool failed = false;  ///< Error or hang-up; a read or write tells which.
};

/// Watches descriptors, level-triggered. The owner removes a descriptor before it closes it. For
/// one thread at a time.
class Poller {
 public:
  static Result<Poller> create();

  Result<void> add(int fd, uint64_t token, Interest interest = Interest::kRead);
  Result<void> modify(int fd, uint64_t token, Interest interest);
  Result<void> remove(int fd);

  /// Waits until something is ready, at most `timeout` (0 or less: not at all; Duration::max():
  /// without end), and fills up to min(events.size(), 64) entries. Returns how many; 0 after a
  /// timeout or a signal.
  size_t wait(std::span<Event> events, Duration timeout);

 private:
  explicit Poller(FileDescriptor fd) : fd_(std::move(fd)) {}

  FileDescriptor fd_;
  bool has_nanoseconds_ = true;  ///< Until epoll_pwait2 has said that it does not exist.
};

/// Ends a Poller's wait. `signal` may be called from any thread and from a signal handler, the rest
/// from the waiting thread. Signals before a `drain` count as one.
class WakeUp {
 public:
  static Result<WakeUp> create();

  int fd() const { return fd_.get(); }  ///< To be added to the poller for reading.
  void signal() noexcept;
  /// Forgets the signals so far. True if there were any.
  bool drain() noexcept;

 private:
  explicit WakeUp(FileDescriptor fd) : fd_(std::move(fd)) {}

  FileDescriptor fd_;
};

}  // namespace sumcast::net
