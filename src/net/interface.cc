#include "net/interface.h"

#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <system_error>

#include "net/descriptor.h"

namespace sumcast::net {
namespace {

// IFF_LOWER_UP of <linux/if.h>, which cannot be included beside <net/if.h>: there is a carrier.
// IFF_RUNNING says much the same, but the kernel updates it up to a second later.
constexpr unsigned kLowerUp = 1u << 16;

FileDescriptor open_probe(Family family) {
  return FileDescriptor(::socket(static_cast<int>(family), SOCK_DGRAM | SOCK_CLOEXEC, 0));
}

uint32_t read_mtu(const FileDescriptor& probe, const char* name) {
  ifreq request{};
  std::strncpy(request.ifr_name, name, IFNAMSIZ - 1);
  if (::ioctl(probe.get(), SIOCGIFMTU, &request) != 0) return 0;
  return static_cast<uint32_t>(request.ifr_mtu);
}

/// The address that the kernel would send from, towards `remote`; nothing and errno set if it has
/// no route. With `from`, whether there is a route from that address.
std::optional<Endpoint> route_to(const Endpoint& remote, const Endpoint* from) {
  const FileDescriptor probe = open_probe(remote.family());
  if (from != nullptr && ::bind(probe.get(), from->raw(), from->raw_bytes()) != 0) {
    return std::nullopt;
  }
  // Port 0 would not do: a connect to it may be refused.
  const Endpoint target = remote.port() == 0 ? remote.with_port(9) : remote;
  if (::connect(probe.get(), target.raw(), target.raw_bytes()) != 0) return std::nullopt;
  Endpoint local;
  socklen_t bytes = Endpoint::kRawBytesMax;
  if (::getsockname(probe.get(), local.raw_target(), &bytes) != 0) return std::nullopt;
  local.assume_filled(bytes);
  return local.with_port(0);
}

bool is_bridge(const std::string& name) {
  return name.rfind("docker", 0) == 0 || name.rfind("virbr", 0) == 0;
}

/// 0 is best.
int misgivings(const Interface& interface, const IfnameSelector& selector) {
  if (selector.names_interfaces()) return 0;
  if (interface.loopback) return 3;
  if (is_bridge(interface.name)) return 2;
  return interface.address.is_link_local() ? 1 : 0;
}

bool matches_address(const Interface& interface, const Endpoint& local) {
  // All of 127.0.0.0/8 is on the loopback interface, though it lists 127.0.0.1 only.
  return interface.address.same_address(local) || (interface.loopback && local.is_loopback());
}

const Interface* holder_of(const std::vector<Interface>& interfaces, const Endpoint& local) {
  for (const Interface& interface : interfaces) {
    if (matches_address(interface, local)) return &interface;
  }
  return nullptr;
}

/// "eth0 10.0.0.2 (not selected), lo 127.0.0.1 (no route)": why none of them was taken.
std::string describe_tried(const std::vector<Interface>& interfaces, const IfnameSelector& selector,
                           Family family) {
  std::string text;
  for (const Interface& interface : interfaces) {
    const bool other_family = family != Family::kAny && interface.address.family() != family;
    const char* why = !selector.matches(interface.name) ? "not selected"
                      : !interface.up                   ? "down"
                      : other_family                    ? "other family"
                                                        : "no route";
    text += fmt::format("{}{} {} ({})", text.empty() ? "" : ", ", interface.name,
                        interface.address.address_text(), why);
  }
  return text.empty() ? "no interface" : text;
}

Error no_address(const Endpoint& remote, const std::vector<Interface>& interfaces,
                 const IfnameSelector& selector, Family family) {
  const std::string purpose =
      remote.is_set() ? " leads to " + remote.text() : std::string(" is usable");
  const std::string now = selector.is_default() ? "" : fmt::format(" (now '{}')", selector.text());
  return {ErrorCode::kUnavailable,
          fmt::format("no local {} address{}; tried {}; SUMCAST_SOCKET_IFNAME{} chooses the "
                      "interface",
                      name_of(family), purpose, describe_tried(interfaces, selector, family), now)};
}

}  // namespace

Result<std::vector<Interface>> list_interfaces() {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return fail(system_error("cannot list interfaces", errno));
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(list, ::freeifaddrs);
  const FileDescriptor probe = open_probe(Family::kIpv4);
  std::vector<Interface> interfaces;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr) continue;
    const int family = entry->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    Interface interface;
    interface.name = entry->ifa_name;
    interface.address = Endpoint(entry->ifa_addr, Endpoint::kRawBytesMax);
    constexpr unsigned kUsable = IFF_UP | kLowerUp;
    interface.up = (entry->ifa_flags & kUsable) == kUsable;
    interface.loopback = (entry->ifa_flags & IFF_LOOPBACK) != 0;
    interface.mtu = read_mtu(probe, entry->ifa_name);
    interfaces.push_back(std::move(interface));
  }
  return interfaces;
}

std::vector<Interface> candidates(const std::vector<Interface>& interfaces,
                                  const IfnameSelector& selector, Family family) {
  std::vector<Interface> chosen;
  for (const Interface& interface : interfaces) {
    if (!interface.up || !selector.matches(interface.name)) continue;
    if (family != Family::kAny && interface.address.family() != family) continue;
    chosen.push_back(interface);
  }
  std::stable_sort(chosen.begin(), chosen.end(), [&](const Interface& a, const Interface& b) {
    const int a_rank = misgivings(a, selector), b_rank = misgivings(b, selector);
    if (a_rank != b_rank) return a_rank < b_rank;
    return a.address.family() == Family::kIpv4 && b.address.family() == Family::kIpv6;
  });
  return chosen;
}

Result<Endpoint> choose_local(const Endpoint& remote, const IfnameSelector& selector,
                              Family family) {
  if (remote.is_set()) {
    if (family != Family::kAny && family != remote.family()) {
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("{} is not an {} address", remote.text(), name_of(family)));
    }
    family = remote.family();
  }
  const auto interfaces = list_interfaces();
  if (!interfaces) return fail(interfaces.error());
  if (remote.is_set()) {
    const auto routed = route_to(remote, nullptr);
    if (routed && selector.is_default()) return *routed;
    if (routed) {
      const Interface* holder = holder_of(*interfaces, *routed);
      if (holder != nullptr && selector.matches(holder->name)) return *routed;
    }
    if (!routed && selector.is_default()) {
      return fail(no_address(remote, *interfaces, selector, family));
    }
  }
  for (const Interface& candidate : candidates(*interfaces, selector, family)) {
    if (!remote.is_set()) return candidate.address;
    // The kernel would send from ::1 to other hosts, which no answer can come back from.
    if (candidate.loopback && holder_of(*interfaces, remote) == nullptr) continue;
    if (route_to(remote, &candidate.address)) return candidate.address;
  }
  return fail(no_address(remote, *interfaces, selector, family));
}

std::optional<uint32_t> interface_mtu(const Endpoint& local) {
  if (!local.is_set() || local.is_wildcard()) return std::nullopt;
  const auto interfaces = list_interfaces();
  if (!interfaces) return std::nullopt;
  const Interface* holder = holder_of(*interfaces, local);
  if (holder == nullptr || holder->mtu == 0) return std::nullopt;
  return holder->mtu;
}

}  // namespace sumcast::net
