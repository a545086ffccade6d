// Addresses to give to other ranks before anybody has joined.
#include "sumcast/meeting.hpp"

#include <fmt/format.h>

#include "control/identity.h"
#include "net/interface.h"

namespace sumcast {
namespace {

/// Any port: connecting a UDP socket only asks for the route.
constexpr std::string_view kAnyPort = ":9";

Result<net::Endpoint> endpoint_of(const std::string& peer) {
  const bool bare_v6 = peer.find(':') != peer.rfind(':') && peer.front() != '[';
  if (bare_v6) return net::parse_endpoint(fmt::format("[{}]{}", peer, kAnyPort));
  const bool has_port = peer.find(':') != std::string::npos && peer.find(']') != peer.size() - 1;
  return net::parse_endpoint(has_port ? peer : fmt::format("{}{}", peer, kAnyPort));
}

}  // namespace

std::string host_identity() { return control::host_identity(); }

Result<std::string> reachable_address(const std::string& peer, const std::string& interface,
                                      bool allow_loopback) {
  auto selector = net::IfnameSelector::parse(interface);
  if (!selector) return fail(selector.error());
  if (!peer.empty()) {
    auto remote = endpoint_of(peer);
    if (!remote) return fail(remote.error());
    auto local = net::choose_local(*remote, *selector);
    if (!local) return fail(local.error());
    if (allow_loopback || !local->is_loopback()) return local->address_text();
  }
  auto local = net::choose_local({}, *selector);
  if (!local) return fail(local.error());
  if (!allow_loopback && local->is_loopback()) {
    return fail(ErrorCode::kUnavailable,
                "this host has no address that others could reach, only loopback; name an "
                "interface (SUMCAST_SOCKET_IFNAME)");
  }
  return local->address_text();
}

}  // namespace sumcast
