#include "net/address.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <net/if.h>
#include <netdb.h>

#include <charconv>
#include <cstddef>
#include <cstring>
#include <memory>
#include <optional>

#include "base/assert.h"

namespace sumcast::net {
namespace {

static_assert(offsetof(sockaddr_in, sin_port) == offsetof(sockaddr_in6, sin6_port),
              "Endpoint::port_bits reads the port of both families at one place");

uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

struct HostAndPort {
  std::string host;
  uint16_t port;
};

std::string quoted(std::string_view text) { return fmt::format("'{}'", text); }

/// Splits, without resolving. An IPv6 address must be in brackets: in "::1:4711" nobody can tell
/// where the port begins.
Result<HostAndPort> split(std::string_view text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) {
    return fail(ErrorCode::kInvalidArgument,
                quoted(text) + " lacks a port; write it as host:port, for example 10.0.0.1:4711");
  }
  std::string_view host = text.substr(0, colon);
  const std::string_view port_text = text.substr(colon + 1);
  if (!host.empty() && host.front() == '[') {
    if (host.back() != ']') {
      return fail(ErrorCode::kInvalidArgument,
                  quoted(text) + " is not [IPv6 address]:port, for example [::1]:4711");
    }
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    return fail(ErrorCode::kInvalidArgument,
                quoted(text) + ": put an IPv6 address in brackets, for example [::1]:4711");
  }
  if (host.empty()) {
    return fail(ErrorCode::kInvalidArgument, quoted(text) + " lacks a host before the port");
  }
  uint32_t port = 0;
  const auto [end, error] =
      std::from_chars(port_text.data(), port_text.data() + port_text.size(), port);
  if (error != std::errc() || end != port_text.data() + port_text.size() || port > 65535) {
    return fail(
        ErrorCode::kInvalidArgument,
        fmt::format("'{}': the port '{}' is not a number from 0 to 65535", text, port_text));
  }
  return HostAndPort{std::string(host), static_cast<uint16_t>(port)};
}

struct AddressList {
  addrinfo* first = nullptr;
  ~AddressList() {
    if (first != nullptr) ::freeaddrinfo(first);
  }
};

/// Asks the resolver; `numeric` allows written-out addresses only.
int look_up(const std::string& host, Family family, bool numeric, AddressList& list) {
  addrinfo hints{};
  hints.ai_family = static_cast<int>(family);
  hints.ai_socktype = SOCK_DGRAM;  // One entry per address instead of one per socket type.
  hints.ai_flags = numeric ? AI_NUMERICHOST : AI_ADDRCONFIG;
  return ::getaddrinfo(host.c_str(), nullptr, &hints, &list.first);
}

}  // namespace

std::string_view name_of(Family family) {
  switch (family) {
    case Family::kIpv4:
      return "IPv4";
    case Family::kIpv6:
      return "IPv6";
    case Family::kAny:
      break;
  }
  return "IP";
}

Endpoint::Endpoint(const sockaddr* address, socklen_t bytes) : Endpoint() {
  SUMCAST_ASSERT(address->sa_family == AF_INET || address->sa_family == AF_INET6);
  const size_t needed = address->sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  SUMCAST_ASSERT(bytes >= needed);
  std::memcpy(&storage_, address, needed);
  bytes_ = static_cast<socklen_t>(needed);
}

Endpoint Endpoint::any(Family family, uint16_t port) {
  Endpoint endpoint;
  if (family == Family::kIpv6) {
    endpoint.storage_.v6.sin6_family = AF_INET6;
    endpoint.storage_.v6.sin6_addr = in6addr_any;
    endpoint.bytes_ = sizeof(sockaddr_in6);
  } else {
    endpoint.storage_.v4.sin_family = AF_INET;
    endpoint.storage_.v4.sin_addr.s_addr = htonl(INADDR_ANY);
    endpoint.bytes_ = sizeof(sockaddr_in);
  }
  return endpoint.with_port(port);
}

Endpoint Endpoint::loopback(Family family, uint16_t port) {
  Endpoint endpoint = any(family, port);
  if (family == Family::kIpv6) {
    endpoint.storage_.v6.sin6_addr = in6addr_loopback;
  } else {
    endpoint.storage_.v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  }
  return endpoint;
}

Endpoint Endpoint::site_group(uint16_t number, uint16_t port) {
  Endpoint endpoint = any(Family::kIpv4, port);
  endpoint.storage_.v4.sin_addr.s_addr = htonl(0xEFFF0000u | number);
  return endpoint;
}

uint16_t Endpoint::port() const { return ntohs(port_bits()); }

Endpoint Endpoint::with_port(uint16_t port) const {
  Endpoint copy = *this;
  copy.storage_.v4.sin_port = htons(port);
  return copy;
}

bool Endpoint::is_wildcard() const {
  if (family() == Family::kIpv4) return storage_.v4.sin_addr.s_addr == htonl(INADDR_ANY);
  return family() == Family::kIpv6 && IN6_IS_ADDR_UNSPECIFIED(&storage_.v6.sin6_addr);
}

bool Endpoint::is_loopback() const {
  if (family() == Family::kIpv4) return ntohl(storage_.v4.sin_addr.s_addr) >> 24 == 127;
  return family() == Family::kIpv6 && IN6_IS_ADDR_LOOPBACK(&storage_.v6.sin6_addr);
}

bool Endpoint::is_link_local() const {
  if (family() == Family::kIpv4) return ntohl(storage_.v4.sin_addr.s_addr) >> 16 == 0xA9FE;
  return family() == Family::kIpv6 && IN6_IS_ADDR_LINKLOCAL(&storage_.v6.sin6_addr);
}

Endpoint Endpoint::unmapped() const {
  if (family() != Family::kIpv6 || !IN6_IS_ADDR_V4MAPPED(&storage_.v6.sin6_addr)) return *this;
  Endpoint v4 = any(Family::kIpv4, port());
  std::memcpy(&v4.storage_.v4.sin_addr, &storage_.v6.sin6_addr.s6_addr[12], 4);
  return v4;
}

Endpoint Endpoint::mapped() const {
  if (family() != Family::kIpv4) return *this;
  Endpoint v6 = any(Family::kIpv6, port());
  auto& bytes = v6.storage_.v6.sin6_addr.s6_addr;
  bytes[10] = bytes[11] = 0xFF;
  std::memcpy(&bytes[12], &storage_.v4.sin_addr, 4);
  return v6;
}

bool Endpoint::same_address(const Endpoint& other) const {
  if (family() != other.family()) return false;
  if (family() == Family::kIpv4) {
    return storage_.v4.sin_addr.s_addr == other.storage_.v4.sin_addr.s_addr;
  }
  if (family() != Family::kIpv6) return true;
  return storage_.v6.sin6_scope_id == other.storage_.v6.sin6_scope_id &&
         std::memcmp(&storage_.v6.sin6_addr, &other.storage_.v6.sin6_addr, 16) == 0;
}

size_t Endpoint::hash() const noexcept {
  uint64_t h = static_cast<uint64_t>(storage_.any.sa_family) << 16 | port_bits();
  if (family() == Family::kIpv4) return mix(h ^ uint64_t{storage_.v4.sin_addr.s_addr} << 32);
  if (family() != Family::kIpv6) return mix(h);
  uint64_t halves[2];
  std::memcpy(halves, &storage_.v6.sin6_addr, sizeof halves);
  h = mix(h ^ halves[0]);
  return mix(h ^ halves[1] ^ uint64_t{storage_.v6.sin6_scope_id} << 32);
}

std::string Endpoint::address_text() const {
  char text[INET6_ADDRSTRLEN] = {};
  if (family() == Family::kIpv4) {
    ::inet_ntop(AF_INET, &storage_.v4.sin_addr, text, sizeof text);
    return text;
  }
  if (family() != Family::kIpv6) return "unspecified";
  ::inet_ntop(AF_INET6, &storage_.v6.sin6_addr, text, sizeof text);
  const uint32_t scope = storage_.v6.sin6_scope_id;
  if (scope == 0) return text;
  char name[IF_NAMESIZE] = {};
  if (::if_indextoname(scope, name) != nullptr) return fmt::format("{}%{}", text, name);
  return fmt::format("{}%{}", text, scope);
}

std::string Endpoint::text() const {
  if (!is_set()) return "unspecified";
  if (family() == Family::kIpv6) return fmt::format("[{}]:{}", address_text(), port());
  return fmt::format("{}:{}", address_text(), port());
}

Result<Endpoint> parse_endpoint(std::string_view text, Family family) {
  const auto parts = split(text);
  if (!parts) return fail(parts.error());
  AddressList list;
  if (look_up(parts->host, Family::kAny, true, list) == 0) {
    const Endpoint found(list.first->ai_addr, list.first->ai_addrlen);
    if (family != Family::kAny && found.family() != family) {
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("'{}' is an {} address, but {} is wanted", text,
                              name_of(found.family()), name_of(family)));
    }
    return found.with_port(parts->port);
  }
  const int error = look_up(parts->host, family, false, list);
  if (error != 0) {
    return fail(ErrorCode::kUnavailable,
                fmt::format("cannot resolve '{}' to an {} address: {}", parts->host,
                            name_of(family), ::gai_strerror(error)));
  }
  return Endpoint(list.first->ai_addr, list.first->ai_addrlen).with_port(parts->port);
}

Result<std::vector<Endpoint>> parse_endpoints(std::string_view text, Family family) {
  std::vector<Endpoint> endpoints;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    std::string_view element = text.substr(begin, end - begin);
    while (!element.empty() && element.front() == ' ') element.remove_prefix(1);
    while (!element.empty() && element.back() == ' ') element.remove_suffix(1);
    if (element.empty()) {
      return fail(ErrorCode::kInvalidArgument,
                  quoted(text) + " has an empty element; write host:port[,host:port...]");
    }
    auto endpoint = parse_endpoint(element, family);
    if (!endpoint) return fail(endpoint.error());
    endpoints.push_back(*endpoint);
    begin = end + 1;
  }
  return endpoints;
}

}  // namespace sumcast::net
