// A file descriptor that closes itself. The lab holds many of them: a network namespace lives as
// long as somebody holds a descriptor to it, which is how clusters clean up after a crash.
#pragma once

#include <unistd.h>

#include <utility>

namespace sumcast::lab {

/// Owns at most one descriptor. Moves, does not copy.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    if (this != &other) {
      reset();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }
  ~Fd() { reset(); }

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  void reset() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }

 private:
  int fd_ = -1;
};

}  // namespace sumcast::lab
