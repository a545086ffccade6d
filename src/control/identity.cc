#include "control/identity.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <fstream>

namespace sumcast::control {

std::string process_name() {
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) host = {'?'};
  return fmt::format("{}:{}", host.data(), ::getpid());
}

std::string host_identity() {
  std::string boot;
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  struct stat network {};
  // Without /proc nothing can be known: then no other process counts as a neighbour.
  if (!std::getline(file, boot) || ::stat("/proc/thread-self/ns/net", &network) != 0) {
    return "unknown:" + process_name();
  }
  return fmt::format("{}:{}", boot, network.st_ino);
}

}  // namespace sumcast::control
