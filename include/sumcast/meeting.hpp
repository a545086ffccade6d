// For programs that bring ranks together themselves (a launcher's store, a scheduler): which of
// this host's addresses to give to the others.
#pragma once

#include <string>

#include "sumcast/result.hpp"

namespace sumcast {

/// Text that is equal on two ranks if and only if they share a host: same boot of the same kernel,
/// same network namespace.
std::string host_identity();

/// The address ("10.0.0.1", "fe80::1%eth0", no port) of this host that others should connect to.
///
/// @param peer       "host" or "host:port": one of the others, or this host's own name; the route
///                   there decides. Empty: the most plausible interface.
/// @param interface  NCCL_SOCKET_IFNAME grammar; empty: no restriction.
/// @param allow_loopback  false if ranks of other hosts have to reach it: where the route leads
/// over
///                   loopback (Debian gives a host's own name 127.0.1.1), an interface is chosen.
/// Errors: kInvalidArgument, kUnavailable (no such interface, name not known, or loopback only).
Result<std::string> reachable_address(const std::string& peer, const std::string& interface,
                                      bool allow_loopback);

}  // namespace sumcast
