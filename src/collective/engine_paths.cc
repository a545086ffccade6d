// Paths: a worker proves its addresses to every shard, and finds out what size of datagram passes
// both ways, before anything else is sent (P12, P13).
//
//   worker -> shard   hello (small, no cookie)
//   worker <- shard   challenge (cookie)
//   worker -> shard   hello with cookie, small and in the largest size; then, if need be, in all
//   worker <- shard   acknowledgement, in that size
//
// Rounds repeat until each path has an acknowledgement; a size counts once it came back. A path MTU
// below the interface's costs one round of waiting; nothing relies on ICMP.
#include <algorithm>

#include "auth/derive.h"
#include "base/assert.h"
#include "collective/engine.h"
#include "collective/engine_state.h"
#include "runtime/clock.h"
#include "wire/bytes.h"

namespace sumcast::collective {
namespace {

constexpr Duration kHelloInterval = std::chrono::milliseconds(20);
constexpr Duration kHelloIntervalMax = std::chrono::milliseconds(320);
/// Paths under proof at once. Under `direct` everybody proves paths to everybody: as each begins
/// with the ranks above its own, no more than so many hellos meet in one receive buffer.
constexpr uint32_t kPathsAtOnce = 24;
/// How long larger sizes may trail behind the first acknowledgement.
constexpr Duration kSizeGrace = std::chrono::milliseconds(60);
/// A path that answers small hellos but none of the least size will not do so later either. Both
/// limits must be reached: one is too short where much is lost, the other on a busy machine.
constexpr Duration kSizePatience = std::chrono::seconds(3);
constexpr uint32_t kSizeRounds = 10;
/// Datagram sizes tried: jumbo frames, Ethernet, PPPoE, common tunnels, the IPv6 minimum, small.
constexpr uint32_t kCandidates[] = {8972, 8952, 4052, 1472, 1464, 1452, 1444,
                                    1432, 1392, 1352, 1252, 1232, 996,  548};
constexpr uint32_t kHelloBytesMin = wire::kHeaderBytes + 8 + wire::kTagBytes;
/// What the kernel charges a receive buffer for a datagram of Ethernet size that came alone.
constexpr uint32_t kTrueSize = 2304;
constexpr uint32_t kWindowMin = 4;

uint32_t largest_candidate(uint32_t limit) {
  for (const uint32_t bytes : kCandidates) {
    if (bytes <= limit) return bytes;
  }
  return kDatagramBytesMin;
}

}  // namespace

Engine::Path& Engine::add_path(Route route, uint16_t shard, const net::Endpoint& to) {
  auto path = std::make_unique<Path>();
  path->route = route;
  path->index = static_cast<uint32_t>(paths_.size());
  path->shard = shard;
  path->to = to;
  std::optional<auth::DatagramKey> key;
  if (options_.key) key = auth::derive_downlink_key(*options_.key, incarnation_, epoch_);
  path->verifier.emplace(static_cast<uint16_t>(wire::kShardBit | shard), key);
  path->cookies.assign(1, 0);
  path->flow_proven.assign(1, false);
  paths_.push_back(std::move(path));
  routes_[static_cast<size_t>(route)].push_back(paths_.back().get());
  return *paths_.back();
}

Result<void> Engine::add_aggregator_paths(std::span<const net::Endpoint> shards) {
  for (size_t i = 0; i < shards.size(); ++i) {
    Path& path = add_path(Route::kAggregator, static_cast<uint16_t>(i), shards[i]);
    for (uint16_t flow = 0; flow < options_.flows; ++flow) {
      net::UdpOptions udp;
      udp.local = options_.local.with_port(0);
      udp.receive_buffer_bytes = udp.send_buffer_bytes = options_.socket_buffer_bytes;
      auto socket = net::UdpSocket::open(udp);
      if (!socket) return fail(socket.error());
      if (auto r = socket->connect(shards[i]); !r) return r;
      socket_paths_.emplace_back(&path, flow);
      if (auto r = poller_.add(socket->fd(), 1 + socket_paths_.size()); !r) return r;
      path.sockets.push_back(std::make_unique<net::UdpSocket>(std::move(*socket)));
    }
    path.cookies.assign(options_.flows, 0);
    path.flow_proven.assign(options_.flows, false);
  }
  return {};
}

Result<void> Engine::add_direct_paths(const control::JobPlan& plan) {
  for (size_t rank = 0; rank < plan.members.size(); ++rank) {
    const auto shard = static_cast<uint16_t>(kEmbeddedShardBit | rank);
    if (rank == rank_.value) {
      add_path(Route::kDirect, shard, host_->endpoint()).local = true;
      continue;
    }
    auto to = net::parse_endpoint(plan.members[rank].shard);
    if (!to) return fail(to.error().within("shard of rank " + std::to_string(rank)));
    add_path(Route::kDirect, shard, *to);
  }
  return {};
}

void Engine::send_hello(Path& path, uint16_t flow, uint32_t datagram_bytes) {
  const size_t overhead = wire::kHeaderBytes + signer_->tag_bytes();
  std::vector<std::byte> body(std::max<size_t>(datagram_bytes - overhead, 8));
  wire::store_big(body.data(), path.cookies[flow]);
  wire::Header header;
  header.kind = wire::Kind::kHello;
  header.slot = flow;
  header.total_or_next = datagram_bytes;
  send_small(path, flow, header, body);
}

void Engine::on_challenge(Path& path, const wire::Header& header,
                          std::span<const std::byte> payload) {
  if (payload.size() != 8 || header.slot >= path.cookies.size()) return;
  path.cookies[header.slot] = wire::load_big<uint64_t>(payload.data());
  send_hello(path, header.slot, kHelloBytesMin);
  // Most paths carry the largest size, so it goes alone; the next round tries all.
  if (header.slot == 0) send_hello(path, 0, largest_candidate(options_.datagram_bytes_max));
}

/// One round of a path that is not settled. Rounds get rarer, for what delays answers on a crowded
/// host is hellos.
void Engine::send_hellos(Path& path, Instant now) {
  for (uint16_t flow = 0; flow < path.cookies.size(); ++flow) {
    if (!path.flow_proven[flow]) send_hello(path, flow, kHelloBytesMin);
  }
  if (path.flow_proven[0]) {
    if (path.acked_bytes == 0) ++path.size_rounds;
    for (const uint32_t bytes : kCandidates) {
      if (bytes <= options_.datagram_bytes_max) send_hello(path, 0, bytes);
    }
  }
  path.hello_interval = std::clamp(2 * path.hello_interval, kHelloInterval, kHelloIntervalMax);
  path.hello_at = now + path.hello_interval;
}

void Engine::on_hello_ack(Path& path, const wire::Header& header) {
  if (header.slot >= path.flow_proven.size()) return;
  if (header.slot == 0 && !path.flow_proven[0]) path.small_proven_at = runtime::monotonic_now();
  path.flow_proven[header.slot] = true;
  path.shard_buffer_bytes = header.chunk;
  if (header.slot == 0 && header.total_or_next >= kDatagramBytesMin &&
      header.total_or_next > path.acked_bytes) {
    path.acked_bytes = header.total_or_next;
    path.size_acked_at = runtime::monotonic_now();
  }
}

Result<void> Engine::prove_paths(Instant deadline) {
  std::unique_lock lock(mutex_);
  const uint32_t best = largest_candidate(options_.datagram_bytes_max);
  for (;;) {
    const Instant now = runtime::monotonic_now();
    Instant next = deadline;
    uint32_t unsettled = 0;
    for (size_t i = 0; i < paths_.size() && unsettled < kPathsAtOnce; ++i) {
      Path& path = *paths_[(i + rank_.value) % paths_.size()];
      const bool settled = path.proven() && (path.local || path.acked_bytes == best ||
                                             now - path.size_acked_at > kSizeGrace);
      if (settled) continue;
      ++unsettled;
      if (now >= path.hello_at) send_hellos(path, now);
      next = std::min(next, path.hello_at);
    }
    if (unsettled == 0) break;
    for (const auto& path : paths_) {
      const bool too_narrow =
          path->size_rounds > kSizeRounds && now - path->small_proven_at > kSizePatience;
      if (path->proven() || (now < deadline && !too_narrow)) continue;
      const bool heard = path->cookies[0] != 0;
      return fail(ErrorCode::kUnavailable,
                  "no datagrams pass between " + options_.local.address_text() + " and " +
                      path->to.text() + " (UDP): " +
                      (heard ? "small ones do, but none of " + std::to_string(kDatagramBytesMin) +
                                   " bytes came back; check the path's MTU"
                             : "no answer at all; check firewalls, and that both sides "
                               "use the same key"));
    }
    drive_once(lock, next);
  }
  datagram_bytes_ = best;
  for (auto& path : paths_) {
    if (!path->local) datagram_bytes_ = std::min(datagram_bytes_, path->acked_bytes);
  }
  return {};
}

/// How much may be in flight on a path at most: what the receive buffers at both ends surely hold
/// (P11). Under `direct` all members' datagrams meet in one buffer, so each path gets its share.
/// @param loops  this process's own results meet there, too (P19), and are dropped.
void Engine::size_windows(bool loops) {
  for (auto& path : paths_) {
    const auto own = static_cast<uint32_t>(
        (path->sockets.empty() ? *direct_socket_ : *path->sockets[0]).receive_buffer_bytes());
    const uint32_t buffer =
        path->shard_buffer_bytes == 0 ? own : std::min(own, path->shard_buffer_bytes);
    uint32_t window = buffer / kTrueSize * 9 / 10;
    if (path->route == Route::kDirect) {
      const auto peers = static_cast<uint32_t>(routes_[1].size() - (loops ? 0 : 1));
      window /= std::max(peers, 1u);
    } else {
      window *= options_.flows;
    }
    if (options_.window_max != 0) window = std::min(window, options_.window_max);
    path->congestion = core::CongestionWindow({.limit = std::max(window, kWindowMin)});
  }
}

}  // namespace sumcast::collective
