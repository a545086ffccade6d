// Which of this host's addresses to use towards a peer.
//
// A host name often resolves to 127.0.1.1, and a host with docker has addresses that no peer can
// reach. So the kernel's routing table is asked, by connecting a UDP socket (which sends nothing)
// and reading its own address back. Only without a peer, or against the route by the operator's
// word, are interfaces looked through, the plausible ones first.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "net/address.h"
#include "net/ifname.h"

namespace sumcast::net {

/// One address of an interface; an interface with several addresses appears several times.
struct Interface {
  std::string name;
  Endpoint address;  ///< Port 0.
  bool up = false;   ///< Administratively up and with a carrier.
  bool loopback = false;
  uint32_t mtu = 0;  ///< Bytes, the IP header included; 0 if unknown.
};

/// All IPv4 and IPv6 addresses of this network namespace. Errors: kSystem.
Result<std::vector<Interface>> list_interfaces();

/// What is worth trying, best first: what `selector` leaves out is left out, and so is what is down
/// or of another family. Ordinary addresses come first, then link-local ones, those of container
/// and virtual machine bridges (docker*, virbr*), and loopback, except that named interfaces count
/// as ordinary. Equals stay in the order given. Pure.
std::vector<Interface> candidates(const std::vector<Interface>& interfaces,
                                  const IfnameSelector& selector, Family family);

/// The local address (port 0) to reach `remote` from.
///
/// @param remote    the peer; an unset one if none is known yet: then the best candidate is taken.
/// @param selector  restricts the interfaces. If the route leads over another one, the first
///                  candidate that has a route to the peer is taken.
/// @param family    of the result, if `remote` is unset; kAny prefers IPv4 among equals.
/// Errors: kUnavailable, telling what was tried and that SUMCAST_SOCKET_IFNAME overrides the
/// choice; kInvalidArgument if `remote` is of another family.
Result<Endpoint> choose_local(const Endpoint& remote, const IfnameSelector& selector = {},
                              Family family = Family::kAny);

/// The MTU of the interface that has this address; nothing for wildcards and foreign addresses.
std::optional<uint32_t> interface_mtu(const Endpoint& local);

}  // namespace sumcast::net
