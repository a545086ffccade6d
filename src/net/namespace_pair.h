// For tests: two network namespaces joined by a veth cable, as two hosts on one wire.
//
// The namespaces have no names, only descriptors, so nothing stays behind if a test crashes. It
// needs root (CAP_SYS_ADMIN); without it `open` says so and the test skips.
#pragma once

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <thread>

#include "base/assert.h"
#include "net/descriptor.h"

namespace sumcast::net {

/// Host A is 10.77.0.1 and fd77::1 on "va", host B 10.77.0.2 and fd77::2 on "vb"; MTU 1500.
class NamespacePair {
 public:
  /// nullptr with `reason` set if this process may not create namespaces, or has no `ip` command.
  static std::unique_ptr<NamespacePair> open(std::string& reason) {
    auto pair = std::unique_ptr<NamespacePair>(new NamespacePair);
    if (!pair->a_.is_open() || !pair->b_.is_open()) {
      reason = "needs root to create network namespaces";
      return nullptr;
    }
    const std::string to_b = fmt::format("/proc/{}/fd/{}", ::getpid(), pair->b_.get());
    if (!pair->in_a("ip link add va type veth peer name vb") ||
        !pair->in_a("ip link set vb netns " + to_b) || !pair->in_a(set_up("va", 1)) ||
        !pair->in_b(set_up("vb", 2))) {
      reason = "needs the `ip` command and the kernel's veth driver";
      return nullptr;
    }
    return pair;
  }

  /// Moves the calling thread into a namespace for as long as it lives; sockets opened meanwhile
  /// stay there.
  class Inside {
   public:
    explicit Inside(const FileDescriptor& target) : home_(own_namespace()) {
      SUMCAST_ASSERT(::setns(target.get(), CLONE_NEWNET) == 0);
    }
    ~Inside() { SUMCAST_ASSERT(::setns(home_.get(), CLONE_NEWNET) == 0); }
    Inside(const Inside&) = delete;
    Inside& operator=(const Inside&) = delete;

   private:
    FileDescriptor home_;
  };
  Inside inside_a() const { return Inside(a_); }
  Inside inside_b() const { return Inside(b_); }

  /// Runs a shell command there. True if it succeeded.
  bool in_a(const std::string& command) const { return run(a_, command); }
  bool in_b(const std::string& command) const { return run(b_, command); }

 private:
  NamespacePair() : a_(fresh_namespace()), b_(fresh_namespace()) {}

  static FileDescriptor own_namespace() {
    return FileDescriptor(::open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC));
  }
  static FileDescriptor fresh_namespace() {
    FileDescriptor fd;
    std::thread([&fd] {  // A thread of its own, which takes the change of namespace with it.
      if (::unshare(CLONE_NEWNET) == 0) fd = own_namespace();
    })
        .join();
    return fd;
  }
  static bool run(const FileDescriptor& where, const std::string& command) {
    const Inside inside(where);
    return std::system((command + " 2>/dev/null").c_str()) == 0;
  }
  static std::string set_up(const char* device, int host) {
    return fmt::format(
        "(ip addr add 10.77.0.{1}/24 dev {0} && ip -6 addr add fd77::{1}/64 dev {0} nodad && "
        "ip link set {0} up && ip link set lo up)",
        device, host);
  }

  FileDescriptor a_, b_;
};

}  // namespace sumcast::net
