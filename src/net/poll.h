// Waiting for sockets: epoll with a nanosecond timeout, and a way to end the wait from elsewhere.
//
// Retransmission timers run below a millisecond, so the timeout goes through epoll_pwait2; kernels
// before 5.11 lack it and get milliseconds, rounded up. It does not know what a token means.
//
// Falling asleep and being woken costs some 10 us of both sides' time, on virtual machines more: as
// much as the answer to a small operation takes. So a poller may look again for a short while
// first. Between two looks it gives the CPU away (sched_yield): where there are more processes than
// cores, the one that we wait for is often the one that runs then. Two things end this: waits that
// turn out long halve the next span; and a yield that takes long tells that others compute here,
// behind whom one who yields stands in line, while one who sleeps is let in front when something
// arrives.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>

#include "base/result.h"
#include "base/time.h"
#include "net/descriptor.h"

struct epoll_event;

namespace sumcast::net {

/// How long a poller looks again before it sleeps. For one thread at a time.
class SpinBudget {
 public:
  explicit SpinBudget(Duration longest = Duration{0}) : longest_(longest), span_(longest) {}

  bool is_on() const { return longest_ > Duration{0}; }
  /// How long to look now; 0: sleep at once.
  Duration span(Instant now) const { return now < rest_until_ ? Duration{0} : span_; }
  /// A wait has ended. Looking (longer) would have been worth it if it was a short one.
  void on_wait(Duration length);
  /// A yield took so long that somebody else must have computed meanwhile.
  void on_crowd(Instant now);

  static constexpr Duration kCrowded = std::chrono::microseconds(300);

 private:
  static constexpr Duration kRestMin = std::chrono::milliseconds(5);
  static constexpr Duration kRestMax = std::chrono::seconds(1);

  Duration longest_, span_;
  Duration rest_ = kRestMin;  ///< After the next crowded yield; doubles each time.
  Instant rest_until_{};
};

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

  /// From now on wait() looks again for up to `longest` before it sleeps; 0, as at first: not.
  void set_spin(Duration longest) { spin_ = SpinBudget(longest); }

 private:
  explicit Poller(FileDescriptor fd) : fd_(std::move(fd)) {}

  int look(std::span<epoll_event> ready, Duration timeout);
  int spin(std::span<epoll_event> ready, Duration span, Instant begin);

  FileDescriptor fd_;
  SpinBudget spin_;
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
