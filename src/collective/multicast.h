// Where the results of a shard meet all who listen for them at once (P19).
//
// Derived, not negotiated: both sides know the job's incarnation and the shard's port. Two jobs may
// share an address by chance; what is another's is dropped by its incarnation, like any stray
// datagram.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "base/ids.h"
#include "control/plan.h"
#include "net/address.h"

namespace sumcast::collective {

/// `chunk` of kTuneIn and kTuned.
enum class Tuning : uint32_t {
  kTest = 0,   ///< Worker: say something to all. Shard: this is it.
  kHeard = 1,  ///< Worker: I heard it. Shard: then results come that way from now on.
  kDeaf = 2,   ///< Worker: I hear no more. It is not answered.
};

inline net::Endpoint multicast_group(Incarnation incarnation, uint16_t shard_port) {
  return net::Endpoint::site_group(
      static_cast<uint16_t>(incarnation.value ^ (incarnation.value >> 16)), shard_port);
}

/// All embedded shards of a job share one group, so that a worker listens at one socket: it has the
/// port of the first member's shard. None if the plan does not say where that is.
inline std::optional<net::Endpoint> direct_multicast_group(const control::JobPlan& plan) {
  if (plan.members.empty()) return std::nullopt;
  const auto first = net::parse_endpoint(plan.members[0].shard);
  if (!first) return std::nullopt;
  return multicast_group(plan.incarnation, first->port());
}

/// Have several embedded shards of the job the address of `own`, which is one of them? Then what
/// one sends to all comes back to its own process as well.
inline bool is_address_shared(const control::JobPlan& plan, const net::Endpoint& own) {
  return std::ranges::count_if(plan.members, [&](const control::Member& member) {
           const auto shard = net::parse_endpoint(member.shard);
           return shard && shard->same_address(own);
         }) > 1;
}

}  // namespace sumcast::collective
