#include "lab/privileges.h"

#include <fmt/format.h>
#include <linux/capability.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "lab/cluster.h"

namespace sumcast::lab {
namespace {

// CAP_SYS_ADMIN creates and enters namespaces, CAP_NET_ADMIN configures links.
bool has_privileges() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {};
  if (::syscall(SYS_capget, &header, data) != 0) return false;
  constexpr uint32_t kNeeded = (1u << CAP_SYS_ADMIN) | (1u << CAP_NET_ADMIN);
  return (data[0].effective & kNeeded) == kNeeded;
}

std::optional<long> read_number(const char* path) {
  std::ifstream file(path);
  long value = 0;
  if (!(file >> value)) return std::nullopt;
  return value;
}

// Puts a name to what forbids user namespaces here.
std::string who_forbids(int error) {
  if (read_number("/proc/sys/user/max_user_namespaces") == 0) {
    return "the sysctl user.max_user_namespaces is 0";
  }
  if (read_number("/proc/sys/kernel/unprivileged_userns_clone") == 0) {
    return "the sysctl kernel.unprivileged_userns_clone is 0";
  }
  if (read_number("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == 1) {
    return "the sysctl kernel.apparmor_restrict_unprivileged_userns is 1";
  }
  if (error == EINVAL) return "this process has more than one thread already";
  return fmt::format("{}; a container's seccomp profile often forbids it", std::strerror(error));
}

Result<void> write_proc(const char* path, const std::string& text) {
  std::ofstream file(path);
  file << text << std::flush;
  if (!file) {
    return fail(ErrorCode::kDenied, fmt::format("cannot write {}: {}", path, strerror(errno)));
  }
  return {};
}

}  // namespace

Result<void> enter_user_namespace_if_needed() {
  if (has_privileges()) return {};
  const uid_t user = ::geteuid();
  const gid_t group = ::getegid();
  if (::unshare(CLONE_NEWUSER) != 0) {
    return fail(ErrorCode::kDenied,
                fmt::format("network namespaces need root or a user namespace, and user "
                            "namespaces are not allowed here: {}",
                            who_forbids(errno)));
  }
  // An ordinary user may map a group only after giving up setgroups.
  if (auto done = write_proc("/proc/self/setgroups", "deny"); !done) return done;
  if (auto done = write_proc("/proc/self/uid_map", fmt::format("0 {} 1", user)); !done) return done;
  return write_proc("/proc/self/gid_map", fmt::format("0 {} 1", group));
}

std::optional<std::string> why_no_namespaces() {
  if (!has_privileges()) {
    return "this process is neither root nor inside a user namespace of its own";
  }
  for (const char* program : {"ip", "tc"}) {
    if (!find_program(program)) {
      return fmt::format("the program {} is missing (Debian package iproute2)", program);
    }
  }
  ClusterOptions options;
  options.workers = 1;
  options.rate_bits_per_second = 1'000'000'000;
  const Result<Cluster> cluster = Cluster::build(options);
  if (!cluster) return cluster.error().what;
  return std::nullopt;
}

std::string loopback_notice(const std::string& why) {
  return fmt::format(
      "no network namespaces ({}): all nodes share this machine's loopback; rates, losses on links "
      "and per-link byte counts are not available, and times say nothing about a network",
      why);
}

}  // namespace sumcast::lab
