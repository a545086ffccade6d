// A file descriptor with one owner, and the few helpers that every socket file needs.
//
// It exists so that no socket leaks on an early return, and so that errno becomes a sentence in
// one place. It knows nothing about what the descriptor is.
#pragma once

#include <sys/socket.h>
#include <time.h>

#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "base/time.h"
#include "runtime/clock.h"

namespace sumcast::net {

/// Owns a file descriptor and closes it. Move-only; an empty one holds -1.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    if (this != &other) {
      close();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  ~FileDescriptor() { close(); }

  int get() const { return fd_; }
  bool is_open() const { return fd_ >= 0; }
  void close() noexcept;

 private:
  int fd_ = -1;
};

/// "`what`: Permission denied" with code kSystem. `error_number` is an errno value.
Error system_error(std::string_view what, int error_number);

/// setsockopt for an int; 0, or the errno it failed with.
int set_option(int fd, int level, int name, int value);
/// getsockopt for an int; -1 if it failed.
int get_option(int fd, int level, int name);

/// Sets O_NONBLOCK; 0, or the errno it failed with.
int make_non_blocking(int fd);

/// The clock that all deadlines of this room are points on.
using runtime::monotonic_now;

/// The time until `deadline` for ppoll and the like; zero if it has passed.
timespec time_left(Instant deadline);

/// Waits until `fd` is ready for `events` (POLLIN, POLLOUT) or `deadline` has passed. True if it is
/// ready, an error condition on it included. Signals do not end the wait.
bool wait_ready(int fd, short events, Instant deadline);

}  // namespace sumcast::net
