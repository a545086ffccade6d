// What a ShardHost remembers of a job: members with their flows and keys, and groups with their
// pools and buffers. Private to shard_*.cc.
#pragma once

#include "collective/shard_host.h"
#include "core/throughput.h"

namespace sumcast::collective {

/// One address of a member, proved at join.
struct ShardHost::Flow {
  bool proven = false;
  net::Endpoint to;
  uint64_t cookie = 0;  // Sent to `candidate`, expected back from it.
  net::Endpoint candidate;
  std::unique_ptr<net::UdpSocket> socket;  // Connected; only with socket_per_member.
  uint64_t token = 0;
};

/// The way to all members at once that know this shard by one address of its host (P19).
struct ShardHost::Outlet {
  net::Endpoint at;                     // That address.
  std::unique_ptr<net::UdpSocket> own;  // Connected to the multicast group; none: the shard's,
  net::Endpoint group;                  // which must be told.
  std::vector<Rank> listeners;
  uint64_t sent = 0;    // Datagrams.
  Instant tested_at{};  // The last test said to all, and how long it was.
  size_t tested_bytes = 0;
};

struct ShardHost::Member {
  static constexpr uint16_t kFlowsMax = 8;
  Verifier verifier;
  std::vector<Flow> flows;  // Index is the worker's flow number.
  uint16_t next_flow = 0;
  uint32_t heard = 0;  // Counter of its newest datagram.
  Duration waited_for{0};
  Outlet* outlet = nullptr;  // Of which it is a listener.
  uint64_t outlet_sent = 0;  // What had gone there when it began, or last complained.
  bool deaf = false;         // It was a listener, and is none any more.
};

/// Memory that is touched only where it is used.
class Pages {
 public:
  explicit Pages(size_t bytes) : bytes_(new std::byte[bytes]) {}
  std::byte* at(size_t offset) { return bytes_.get() + offset; }

 private:
  std::unique_ptr<std::byte[]> bytes_;
};

struct ShardHost::Group {
  Group(Job& owner, const control::GroupPlan& plan, size_t tag, const core::SlotPoolConfig& config);

  Job& job;
  GroupId id;
  std::vector<Rank> ranks;
  std::vector<int32_t> member_of_rank;  // -1: not a member.
  uint16_t slot_base, slots;
  uint32_t lanes_bytes_max;  // Payload of a datagram.
  size_t tag_bytes;
  std::vector<std::byte> pool_memory;
  core::SlotPool pool;
  Pages stash;  // [slots][members][lanes_bytes_max]
  size_t result_stride;
  Pages results;                         // [2][slots]: header, lanes, tag.
  Pages empty_results;                   // [2][slots]: header, tag; for those who want no lanes.
  std::vector<uint32_t> result_lanes;    // [2][slots]: bytes.
  std::vector<uint32_t> result_counter;  // [2][slots]: of the send counter, when it was sealed.
  std::vector<uint32_t> open_measure;    // [slots]: of the open phase's non-empty addends.
  std::vector<uint32_t> open_kind;       // [slots]: what the open phase's lanes are (kind_of).
  std::vector<uint8_t> open_compact;     // [slots]: did an addend come without blocks of zeros?
  std::vector<uint8_t> has_quiet;        // [2][slots]
  core::Throughput sending;              // Of results, one copy each.
  std::vector<uint16_t> completed;       // To be fanned out.
  std::vector<uint16_t> unsealed;        // Of these, those whose length is not yet settled.
  bool poisoned = false;                 // A mismatch was reported: nothing completes any more.

  uint16_t members() const { return static_cast<uint16_t>(ranks.size()); }
  size_t version_index(uint16_t slot) const {
    return (pool.stored(slot).phase & 1u) * size_t{slots} + slot;
  }
  std::byte* result(uint16_t slot) { return results.at(version_index(slot) * result_stride); }
  std::byte* empty_result(uint16_t slot) {
    return empty_results.at(version_index(slot) * (wire::kHeaderBytes + wire::kTagBytes));
  }
  std::byte* stash_at(uint16_t slot, uint16_t member) {
    return stash.at((size_t{slot} * members() + member) * lanes_bytes_max);
  }
  /// Is the stored result sent to this member without its lanes?
  bool sends_empty(uint16_t slot, uint16_t member) const {
    const size_t version = version_index(slot);
    return has_quiet[version] && result_lanes[version] != 0 && !pool.wants_lanes(slot, member);
  }
  uint32_t result_bytes(uint16_t slot) const {
    return static_cast<uint32_t>(wire::kHeaderBytes + result_lanes[version_index(slot)] +
                                 tag_bytes);
  }
};

struct ShardHost::Job {
  Job(Incarnation which, Epoch now, Signer name)
      : incarnation(which), epoch(now), signer(std::move(name)) {}

  Incarnation incarnation;
  Epoch epoch;
  std::vector<Member> members;
  std::vector<std::unique_ptr<Outlet>> outlets;
  std::optional<net::Endpoint> direct_group;  // Of an embedded shard.
  bool shares_address = false;                // Its own, with shards of other members.
  Signer signer;
  std::vector<int32_t> group_of_slot;  // Index into groups, -1: free.
  std::vector<std::unique_ptr<Group>> groups;
  std::optional<Rank> local_rank;
  LocalMember* local = nullptr;
};

/// How a pool remembers where an addend lies: the address, and the receive buffer to release.
inline uint64_t pack_payload(const std::byte* at, net::BufferIndex buffer) {
  const uint64_t holder = buffer == net::kNoBuffer ? 0 : buffer.value + 1u;
  return (holder << 48) | (reinterpret_cast<uint64_t>(at) & 0xFFFFFFFFFFFFu);
}
inline const std::byte* payload_address(uint64_t packed) {
  return reinterpret_cast<const std::byte*>(packed & 0xFFFFFFFFFFFFu);
}
inline net::BufferIndex payload_buffer(uint64_t packed) {
  const auto holder = static_cast<uint32_t>(packed >> 48);
  return holder == 0 ? net::kNoBuffer : net::BufferIndex{holder - 1};
}

}  // namespace sumcast::collective
