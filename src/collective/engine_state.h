// What an Engine remembers of paths and groups. Private to engine*.cc.
#pragma once

#include <algorithm>

#include "collective/engine.h"
#include "collective/shard_state.h"
#include "core/congestion.h"

namespace sumcast::collective {

/// Shard indices of embedded shards: this bit and the rank.
inline constexpr uint16_t kEmbeddedShardBit = 0x4000;

/// The way to one shard.
struct Engine::Path {
  Route route = Route::kDirect;
  uint32_t index = 0;  // Among all paths.
  uint16_t shard = 0;  // As in its sender field, without kShardBit.
  bool local = false;  // In this process.
  net::Endpoint to;
  std::vector<std::unique_ptr<net::UdpSocket>> sockets;  // Connected flows; empty: direct_socket_.
  uint16_t next_flow = 0;
  std::optional<Verifier> verifier;
  uint32_t heard = 0;  // Counter of the shard's newest datagram.
  core::RttEstimator rtt;
  uint32_t in_flight = 0;
  core::CongestionWindow congestion;
  uint32_t refused = 0;  // Contributions that a full socket gave back: their repeats are no losses.
  Instant retry_at = Instant::never();

  // Results to all at once (engine_multicast.cc).
  std::unique_ptr<net::UdpSocket> listening;  // To a daemon's shard.
  Instant tune_at = Instant::never();         // When the next round is due.
  uint32_t tune_rounds = 0;
  bool hears = false;  // The test; it may be a listener from then on.
  Instant last_heard_at{};
  uint32_t unheard = 0;         // Results that came alone since then,
  uint32_t unheard_probed = 0;  // and of these, asked for.
  uint32_t audible = 0;         // Results since the loss was last looked at,
  uint32_t audible_lost = 0;    // and of these, those that came alone when asked for.

  // Proving (engine_paths.cc).
  std::vector<uint64_t> cookies;  // Per flow; 0: not yet challenged.
  std::vector<bool> flow_proven;
  Instant hello_at{};  // When the next round is due, and how far apart they are.
  Duration hello_interval{0};
  uint32_t acked_bytes = 0;  // Largest hello that came back.
  uint32_t shard_buffer_bytes = 0;
  Instant size_acked_at{};
  Instant small_proven_at{};  // When a hello of the smallest size came back.
  uint32_t size_rounds = 0;   // Rounds since then in which none of a useful size did.

  bool proven() const {
    return local || (acked_bytes != 0 &&
                     std::find(flow_proven.begin(), flow_proven.end(), false) == flow_proven.end());
  }
};

/// A group's send window to one shard.
struct Engine::Window {
  Window(Group& owner, Path& way, uint32_t index, const core::SendWindowConfig& config)
      : group(owner),
        path(way),
        shard(index),
        memory(core::SendWindow::bytes_needed(config)),
        core(config, memory),
        operations(config.operations),
        sent(config.slots) {}
  Group& group;
  Path& path;
  uint32_t shard;  // Index among the shards of the group on this route.
  std::vector<std::byte> memory;
  core::SendWindow core;
  std::vector<OperationPtr> operations;  // By ticket modulo size.
  std::vector<uint32_t> sent;            // By slot: the counter of its last contribution.
  uint32_t next_slot = 0;                // Where the next operation's first chunk lies.
  std::vector<core::Want> left;          // Results that left the shard before it said so.
  Instant heard_at{};                    // Of the last result.
  /// The timeout in force: once nothing more can be sent, silence alone is suspicious.
  Duration patience() const {
    const Duration rto = path.rtt.rto();
    if (core.ready() > 0 || core.in_flight() >= core.config().slots) return rto;
    return std::min(rto, path.rtt.overdue());
  }
  bool silent(Instant now) const {
    return heard_at + std::min(path.rtt.silence(), patience()) <= now;
  }
  /// When it ends; never, if nothing is in flight.
  Instant deadline() const {
    const Duration rto = path.rtt.rto();
    const Instant due = core.next_deadline(rto);
    const Duration quick = patience();
    if (quick == rto || core.in_flight() == 0) return due;
    return std::min(due, std::max(heard_at + path.rtt.silence(), core.next_deadline(quick)));
  }
  OperationPtr& operation(core::Ticket ticket) { return operations[ticket % operations.size()]; }
};

struct Engine::Group {
  static constexpr size_t kHistory = 64;
  /// Operations under way: more could have equal digests (P4).
  static constexpr uint32_t kUnderWayMax = 256;
  GroupId id;
  control::GroupPlan plan;
  uint16_t my_member = 0;
  uint32_t lanes_bytes_max = 0;
  std::array<std::vector<std::unique_ptr<Window>>, kRoutes> windows;
  uint32_t posted = 0, completed = 0;   // Sequence numbers, from 1.
  std::deque<OperationPtr> unfinished;  // In call order.
  size_t waiting = 0;                   // The last `waiting` of them have not been started.
  std::array<wire::OperationDescriptor, kHistory> history;  // By sequence.
  Instant last_change{};
  std::optional<Error> aborted;
};

}  // namespace sumcast::collective
