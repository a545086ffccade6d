// Where a datagram goes or comes from: an IPv4 or IPv6 address with a port, as a value.
//
// The kernel's own sockaddr lies inside, so that sending to an endpoint or receiving from one
// converts nothing. It does not know who is at the other end. Names are resolved only by
// parse_endpoint, never on a packet's way.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace sumcast::net {

/// Which addresses a name may resolve to. The values are the kernel's.
enum class Family : sa_family_t {
  kAny = AF_UNSPEC,
  kIpv4 = AF_INET,
  kIpv6 = AF_INET6,
};

/// "IPv4", "IPv6" or "IP".
std::string_view name_of(Family family);

/// An address and a port; a default one is unspecified (family kAny). A value of 32 bytes.
class Endpoint {
 public:
  Endpoint() : storage_{}, bytes_(0) {}
  /// `address` must be of family AF_INET or AF_INET6 and at least that long (asserted).
  Endpoint(const sockaddr* address, socklen_t bytes);

  /// All addresses of a family, as one binds to: "0.0.0.0:port" or "[::]:port".
  static Endpoint any(Family family, uint16_t port);
  static Endpoint loopback(Family family, uint16_t port);
  /// The multicast group 239.255.x.y (RFC 2365: stays at the site), x.y being `number`.
  static Endpoint site_group(uint16_t number, uint16_t port);

  Family family() const { return static_cast<Family>(storage_.any.sa_family); }
  bool is_set() const { return family() != Family::kAny; }
  uint16_t port() const;
  Endpoint with_port(uint16_t port) const;

  bool is_wildcard() const;    ///< 0.0.0.0 or ::
  bool is_loopback() const;    ///< 127.0.0.0/8 or ::1
  bool is_link_local() const;  ///< 169.254.0.0/16 or fe80::/10

  /// A dual-stack socket shows IPv4 peers as ::ffff:a.b.c.d. `unmapped` turns such an endpoint into
  /// IPv4, `mapped` an IPv4 one into that form; both leave others as they are.
  Endpoint unmapped() const;
  Endpoint mapped() const;

  /// True if the addresses agree, whatever the ports.
  bool same_address(const Endpoint& other) const;
  bool operator==(const Endpoint& other) const {
    return same_address(other) && port_bits() == other.port_bits();
  }
  size_t hash() const noexcept;

  /// "10.0.0.1:4711", "[::1]:4711", "[fe80::1%eth0]:4711"; "unspecified" if not set.
  std::string text() const;
  /// The same without port and brackets.
  std::string address_text() const;

  const sockaddr* raw() const { return &storage_.any; }
  socklen_t raw_bytes() const { return bytes_; }

  /// For the receive path: the kernel writes the address here, then `assume_filled` is called
  /// with the length that it reported.
  sockaddr* raw_target() { return &storage_.any; }
  static constexpr socklen_t kRawBytesMax = sizeof(sockaddr_in6);
  void assume_filled(socklen_t bytes) { bytes_ = bytes; }

 private:
  uint16_t port_bits() const { return storage_.v4.sin_port; }  // At the same place in both.

  union {
    sockaddr any;
    sockaddr_in v4;
    sockaddr_in6 v6;
  } storage_;
  socklen_t bytes_;
};

static_assert(sizeof(Endpoint) == 32);

/// "host:port" or "[v6]:port", numeric or a name that the system resolves.
///
/// @param family  restricts a name's addresses; an address written out must agree with it. Of a
///                name with both, the resolver's first is taken.
/// Errors: kInvalidArgument (the text is not host:port), kUnavailable (the name does not resolve).
Result<Endpoint> parse_endpoint(std::string_view text, Family family = Family::kAny);

/// "a:1,b:2" in the order given; at least one, and no empty elements.
Result<std::vector<Endpoint>> parse_endpoints(std::string_view text, Family family = Family::kAny);

}  // namespace sumcast::net

template <>
struct std::hash<sumcast::net::Endpoint> {
  size_t operator()(const sumcast::net::Endpoint& endpoint) const noexcept {
    return endpoint.hash();
  }
};
