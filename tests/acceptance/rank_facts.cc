// What this process holds: descriptors, memory, the local addresses of its sockets.
#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <string>

#include "acceptance/rank_program.h"

namespace sumcast::acceptance {
namespace {

/// The local address of an IPv4 or IPv6 socket; empty for everything else.
std::string address_of_socket(int fd) {
  sockaddr_storage storage{};
  socklen_t bytes = sizeof storage;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&storage), &bytes) != 0) return "";
  std::array<char, INET6_ADDRSTRLEN> text{};
  const void* address = nullptr;
  if (storage.ss_family == AF_INET) {
    address = &reinterpret_cast<const sockaddr_in*>(&storage)->sin_addr;
  } else if (storage.ss_family == AF_INET6) {
    address = &reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_addr;
  } else {
    return "";
  }
  return ::inet_ntop(storage.ss_family, address, text.data(), text.size()) != nullptr
             ? std::string(text.data())
             : "";
}

/// A line such as "VmHWM:   123 kB" of /proc/self/status.
uint64_t status_kilobytes(const std::string& name) {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(name + ":")) return std::stoull(line.substr(name.size() + 1));
  }
  return 0;
}

}  // namespace

nlohmann::json process_facts() {
  nlohmann::json udp = nlohmann::json::array(), tcp = nlohmann::json::array();
  uint64_t descriptors = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    ++descriptors;
    const int fd = std::stoi(entry.path().filename());
    const std::string address = address_of_socket(fd);
    if (address.empty()) continue;
    int kind = 0;
    socklen_t bytes = sizeof kind;
    if (::getsockopt(fd, SOL_SOCKET, SO_TYPE, &kind, &bytes) != 0) continue;
    (kind == SOCK_DGRAM ? udp : tcp).push_back(address);
  }
  return {{"ok", true},
          {"descriptors", descriptors},
          {"rss_kb", status_kilobytes("VmRSS")},
          {"rss_kb_max", status_kilobytes("VmHWM")},
          {"threads", status_kilobytes("Threads")},
          {"udp", udp},
          {"tcp", tcp}};
}

}  // namespace sumcast::acceptance
