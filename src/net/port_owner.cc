#include "net/port_owner.h"

#include <dirent.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <fstream>
#include <memory>
#include <sstream>
#include <string_view>
#include <vector>

#include "net/descriptor.h"

namespace sumcast::net {
namespace {

using Directory = std::unique_ptr<DIR, int (*)(DIR*)>;

Directory open_directory(const std::string& path) { return {::opendir(path.c_str()), ::closedir}; }

/// Sockets of one /proc/net table that have `port` locally, as the link texts of their
/// descriptors. Its lines read "0: 0100007F:1267 00000000:0000 0A ... uid timeout inode ...".
void collect_sockets(const char* table, Transport transport, uint16_t port,
                     std::vector<std::string>& links) {
  std::ifstream file(table);
  std::string line;
  std::getline(file, line);  // The heading.
  while (std::getline(file, line)) {
    std::istringstream fields(line);
    std::string slot, local, remote, state, queues, timer, retransmits, uid, timeout, inode;
    fields >> slot >> local >> remote >> state >> queues >> timer >> retransmits >> uid >>
        timeout >> inode;
    const size_t colon = local.rfind(':');
    if (colon == std::string::npos || inode.empty() || inode == "0") continue;
    if (transport == Transport::kTcp && state != "0A") continue;  // 0A: listening.
    if (std::stoul(local.substr(colon + 1), nullptr, 16) != port) continue;
    links.push_back("socket:[" + inode + "]");
  }
}

bool holds_one_of(const std::string& process, const std::vector<std::string>& links) {
  const std::string fd_path = process + "/fd";
  const Directory descriptors = open_directory(fd_path);
  if (descriptors == nullptr) return false;
  while (const dirent* entry = ::readdir(descriptors.get())) {
    char target[64];
    const ssize_t length =
        ::readlink((fd_path + "/" + entry->d_name).c_str(), target, sizeof target);
    if (length <= 0) continue;
    const std::string_view text(target, static_cast<size_t>(length));
    for (const std::string& link : links) {
      if (text == link) return true;
    }
  }
  return false;
}

}  // namespace

std::optional<PortOwner> find_port_owner(Transport transport, const Endpoint& local) {
  std::vector<std::string> links;
  const bool udp = transport == Transport::kUdp;
  // An IPv6 socket may hold an IPv4 port as well, so both tables are read. "thread-self" because
  // a thread may live in a network namespace of its own.
  collect_sockets(udp ? "/proc/thread-self/net/udp" : "/proc/thread-self/net/tcp", transport,
                  local.port(), links);
  collect_sockets(udp ? "/proc/thread-self/net/udp6" : "/proc/thread-self/net/tcp6", transport,
                  local.port(), links);
  if (links.empty()) return std::nullopt;
  const Directory processes = open_directory("/proc");
  if (processes == nullptr) return std::nullopt;
  while (const dirent* entry = ::readdir(processes.get())) {
    const std::string_view name = entry->d_name;
    PortOwner owner;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), owner.pid);
    if (error != std::errc() || end != name.data() + name.size()) continue;
    const std::string process = fmt::format("/proc/{}", owner.pid);
    if (!holds_one_of(process, links)) continue;
    std::ifstream comm(process + "/comm");
    std::getline(comm, owner.name);
    return owner;
  }
  return std::nullopt;
}

Error bind_error(Transport transport, const Endpoint& local, int error_number) {
  if (error_number == EADDRINUSE) {
    std::string by;
    if (const auto owner = find_port_owner(transport, local)) {
      by = fmt::format(" by pid {} ({})", owner->pid, owner->name);
    }
    return Error{ErrorCode::kUnavailable,
                 fmt::format("address {} is already in use{}; choose another with --listen",
                             local.text(), by)};
  }
  if (error_number == EADDRNOTAVAIL) {
    return Error{ErrorCode::kUnavailable,
                 fmt::format("{} is not an address of this host", local.address_text())};
  }
  if (error_number == EACCES) {
    return Error{ErrorCode::kUnavailable,
                 fmt::format("port {} may be opened by root only; choose one from 1024 up with "
                             "--listen",
                             local.port())};
  }
  return system_error(fmt::format("cannot bind to {}", local.text()), error_number);
}

}  // namespace sumcast::net
