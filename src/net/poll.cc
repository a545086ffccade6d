#include "net/poll.h"

#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/assert.h"

namespace sumcast::net {
namespace {

constexpr size_t kEventsMax = 64;

uint32_t epoll_bits(Interest interest) {
  switch (interest) {
    case Interest::kRead:
      return EPOLLIN;
    case Interest::kWrite:
      return EPOLLOUT;
    case Interest::kReadWrite:
      return EPOLLIN | EPOLLOUT;
  }
  return 0;
}

Result<void> control(int epoll, int operation, int fd, uint64_t token, Interest interest) {
  epoll_event event{};
  event.events = epoll_bits(interest);
  event.data.u64 = token;
  if (::epoll_ctl(epoll, operation, fd, &event) == 0) return {};
  return fail(system_error("cannot change what is polled", errno));
}

/// Milliseconds, rounded up: a wait that ends early would be repeated with nothing to do.
int whole_milliseconds(Duration timeout) {
  if (timeout == Duration::max()) return -1;
  const int64_t ms = timeout.count() / 1'000'000 + (timeout.count() % 1'000'000 != 0 ? 1 : 0);
  return static_cast<int>(std::min<int64_t>(ms, INT32_MAX));
}

}  // namespace

Result<Poller> Poller::create() {
  FileDescriptor fd(::epoll_create1(EPOLL_CLOEXEC));
  if (!fd.is_open()) return fail(system_error("cannot create an epoll descriptor", errno));
  return Poller(std::move(fd));
}

Result<void> Poller::add(int fd, uint64_t token, Interest interest) {
  return control(fd_.get(), EPOLL_CTL_ADD, fd, token, interest);
}

Result<void> Poller::modify(int fd, uint64_t token, Interest interest) {
  return control(fd_.get(), EPOLL_CTL_MOD, fd, token, interest);
}

Result<void> Poller::remove(int fd) {
  return control(fd_.get(), EPOLL_CTL_DEL, fd, 0, Interest::kRead);
}

void SpinBudget::on_wait(Duration length) {
  if (length <= longest_ + longest_ / 2) {
    span_ = std::min(longest_, 2 * span_);
    rest_ = std::max(kRestMin, rest_ / 2);
  } else {
    span_ = std::max(longest_ / 8, span_ / 2);
  }
}

void SpinBudget::on_crowd(Instant now) {
  rest_until_ = now + rest_;
  rest_ = std::min(kRestMax, 2 * rest_);
}

/// One call of the kernel. What is ready, 0 after the timeout or a signal.
int Poller::look(std::span<epoll_event> ready, Duration timeout) {
  const int room = static_cast<int>(ready.size());
  int count = -1;
  if (has_nanoseconds_) {
    const timespec span{timeout.count() / 1'000'000'000, timeout.count() % 1'000'000'000};
    count = ::epoll_pwait2(fd_.get(), ready.data(), room,
                           timeout == Duration::max() ? nullptr : &span, nullptr);
    // Old container sandboxes answer EPERM to calls that they do not know.
    if (count < 0 && (errno == ENOSYS || errno == EPERM)) has_nanoseconds_ = false;
  }
  if (!has_nanoseconds_) {
    count = ::epoll_wait(fd_.get(), ready.data(), room, whole_milliseconds(timeout));
  }
  SUMCAST_ASSERT(count >= 0 || errno == EINTR);
  return std::max(count, 0);
}

/// Looks again and again, for as long as it may, from `begin` on.
int Poller::spin(std::span<epoll_event> ready, Duration span, Instant begin) {
  for (Instant now = begin;;) {
    if (const int count = look(ready, Duration::zero()); count > 0) return count;
    ::sched_yield();
    const Instant after = monotonic_now();
    if (after - now > SpinBudget::kCrowded) {
      spin_.on_crowd(after);
      return 0;
    }
    if (after - begin >= span) return 0;
    now = after;
  }
}

size_t Poller::wait(std::span<Event> events, Duration timeout) {
  SUMCAST_ASSERT(!events.empty());
  std::array<epoll_event, kEventsMax> memory;
  const auto ready = std::span(memory).first(std::min(events.size(), kEventsMax));
  timeout = std::max(timeout, Duration::zero());
  int count = 0;
  if (spin_.is_on() && timeout > Duration::zero()) {
    const Instant begin = monotonic_now();
    const Duration span = std::min(spin_.span(begin), timeout);
    if (span > Duration::zero()) count = spin(ready, span, begin);
    if (count == 0) {
      const Duration spent = monotonic_now() - begin;
      count = look(ready, timeout == Duration::max() ? timeout
                                                     : std::max(timeout - spent, Duration::zero()));
    }
    spin_.on_wait(monotonic_now() - begin);
  } else {
    count = look(ready, timeout);
  }
  const auto filled = static_cast<size_t>(count);
  for (size_t i = 0; i < filled; ++i) {
    const uint32_t bits = ready[i].events;
    const bool failed = (bits & (EPOLLERR | EPOLLHUP)) != 0;
    events[i] = {ready[i].data.u64, (bits & EPOLLIN) != 0 || failed, (bits & EPOLLOUT) != 0,
                 failed};
  }
  return filled;
}

Result<WakeUp> WakeUp::create() {
  FileDescriptor fd(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!fd.is_open()) return fail(system_error("cannot create an eventfd", errno));
  return WakeUp(std::move(fd));
}

void WakeUp::signal() noexcept {
  const int saved = errno;  // The caller may be a signal handler.
  const uint64_t one = 1;
  // It can only fail because the count is at its maximum, and then it is signalled already.
  [[maybe_unused]] const ssize_t written = ::write(fd_.get(), &one, sizeof one);
  errno = saved;
}

bool WakeUp::drain() noexcept {
  uint64_t count = 0;
  return ::read(fd_.get(), &count, sizeof count) == sizeof count;
}

}  // namespace sumcast::net
