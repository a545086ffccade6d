#include "net/descriptor.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

namespace sumcast::net {

void FileDescriptor::close() noexcept {
  if (fd_ >= 0) {
    ::close(fd_);  // Linux releases the number even when it reports an error.
    fd_ = -1;
  }
}

Error system_error(std::string_view what, int error_number) {
  return Error{ErrorCode::kSystem,
               fmt::format("{}: {}", what, std::system_category().message(error_number))};
}

int set_option(int fd, int level, int name, int value) {
  return ::setsockopt(fd, level, name, &value, sizeof value) == 0 ? 0 : errno;
}

int get_option(int fd, int level, int name) {
  int value = -1;
  socklen_t size = sizeof value;
  return ::getsockopt(fd, level, name, &value, &size) == 0 ? value : -1;
}

int make_non_blocking(int fd) {
  const int flags = ::fcntl(fd, F_GETFL);
  if (flags < 0 || ::fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0) return errno;
  return 0;
}

timespec time_left(Instant deadline) {
  const int64_t left_ns = std::max<int64_t>(0, deadline.ns - monotonic_now().ns);
  return {left_ns / 1'000'000'000, left_ns % 1'000'000'000};
}

bool wait_ready(int fd, short events, Instant deadline) {
  pollfd entry{fd, events, 0};
  for (;;) {
    const timespec timeout = time_left(deadline);
    const int ready =
        ::ppoll(&entry, 1, deadline == Instant::never() ? nullptr : &timeout, nullptr);
    if (ready >= 0 || errno != EINTR) return ready > 0;
  }
}

}  // namespace sumcast::net
