// One datagram for all: results to every member that has proved that it hears the job's multicast
// group (P19). Who does not hear it, or stops doing so, is sent its own.
#include <algorithm>

#include "collective/multicast.h"
#include "collective/shard_host.h"
#include "collective/shard_state.h"

namespace sumcast::collective {
namespace {

constexpr Duration kTestInterval = std::chrono::milliseconds(5);
constexpr uint64_t kSaidMin = 8;  // Datagrams to all, before a worker can be deaf to them.

}  // namespace

/// The way to the group for members that know this shard by our address `local`; nullptr if the
/// group cannot be reached that way.
ShardHost::Outlet* ShardHost::outlet_at(Job& job, const net::Endpoint& local) {
  const net::Endpoint at = local.unmapped();
  if (at.family() != net::Family::kIpv4) return nullptr;
  for (const auto& outlet : job.outlets) {
    if (outlet->at.same_address(at)) return outlet.get();
  }
  auto outlet = std::make_unique<Outlet>();
  outlet->at = at;
  if (options_.socket_per_member) {
    net::UdpOptions udp;
    udp.local = at;
    udp.reuse_address = true;  // The shard's port is in use, by the shard.
    udp.send_buffer_bytes = options_.socket_buffer_bytes;
    auto socket = net::UdpSocket::open(udp);
    if (!socket || !socket->send_to_groups(true)) return nullptr;
    // Connected, so that nothing that others send to this port ends here.
    if (!socket->connect(multicast_group(job.incarnation, at.port()))) return nullptr;
    outlet->own = std::make_unique<net::UdpSocket>(std::move(*socket));
  } else {
    if (!job.direct_group || !socket_.send_to_groups(job.shares_address)) return nullptr;
    outlet->group = *job.direct_group;
  }
  job.outlets.push_back(std::move(outlet));
  return job.outlets.back().get();
}

net::UdpSocket& ShardHost::socket_of(Outlet& outlet) { return outlet.own ? *outlet.own : socket_; }

void ShardHost::on_tune_in(Job& job, const wire::Header& header, size_t datagram_bytes,
                           Instant now) {
  Member& member = job.members[header.sender];
  Flow& flow = member.flows[0];
  if (!options_.multicast || !flow.proven || member.deaf) return;
  if (header.chunk == static_cast<uint32_t>(Tuning::kDeaf)) {
    if (member.outlet == nullptr) return;
    // Results that were each sent alone, for whatever reason, cannot have been heard.
    const uint64_t said = member.outlet->sent - member.outlet_sent;
    member.outlet_sent = member.outlet->sent;
    if (said < kSaidMin) return;
    std::erase(member.outlet->listeners, Rank(header.sender));
    member.outlet = nullptr;
    member.deaf = true;
    return counters_.add(ShardWork::kUntuned);
  }
  if (datagram_bytes > kDatagramBytesMax) return;
  Outlet* outlet = outlet_at(job, flow.socket ? flow.socket->local() : socket_.local());
  if (outlet == nullptr) return;
  wire::Header answer;
  answer.kind = wire::Kind::kTuned;
  answer.chunk = header.chunk;
  if (header.chunk == static_cast<uint32_t>(Tuning::kTest)) {
    // One answers all who have asked meanwhile.
    if (outlet->tested_bytes == datagram_bytes && now - outlet->tested_at < kTestInterval) return;
    outlet->tested_bytes = datagram_bytes;
    outlet->tested_at = now;
    // As long as results will be: that is what the group has to carry.
    thread_local std::vector<std::byte> padding;
    padding.assign(datagram_bytes - wire::kHeaderBytes - job.signer.tag_bytes(), std::byte{0});
    const net::Endpoint* to = outlet->own ? nullptr : &outlet->group;
    return send_signed(job, socket_of(*outlet), to, answer, padding);
  }
  if (member.outlet == nullptr) {
    member.outlet = outlet;
    member.outlet_sent = outlet->sent;
    outlet->listeners.emplace_back(header.sender);
  }
  send_small(job, member, 0, answer, {});
}

/// May this group's results go to all listeners? Not if some of them are no members: what they are
/// not meant to have would only cost them.
bool ShardHost::serves(const Outlet& outlet, const Group& group) {
  return outlet.listeners.size() > 1 && std::ranges::all_of(outlet.listeners, [&](Rank rank) {
           return group.member_of_rank[rank.value] >= 0;
         });
}

}  // namespace sumcast::collective
