// What a worker and its coordinator say to each other, and how it is written down.
//
// Control traffic is rare and read by people who debug it, so it is JSON: one object a frame, its
// "kind" first. Decoding is strict, because whoever holds the key can still be of another build:
// an unknown kind, a missing, surplus or mistyped field is refused with one line that names it.
//
// The trick: each message lists its fields once (kSchema in messages.cc), and both directions walk
// that list. This file knows nothing of sockets, seals or clocks.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "base/time.h"

namespace sumcast::control {

/// Version of this vocabulary; both hellos carry it and must agree.
inline constexpr uint32_t kProtocol = 5;
/// Longest body of a frame: the welcome to 1,024 members with all their texts at the limit.
inline constexpr size_t kBodyBytesMax = size_t{4} << 20;
/// Longest text in a message; encoding cuts what is longer.
inline constexpr size_t kTextBytesMax = 4096;

using std::chrono::milliseconds;

/// One rank as the others see it. Endpoints are texts "host:port", empty where there is none.
struct Member {
  Rank rank;
  std::string host;     ///< Boot id and network namespace: equal on ranks that share a host.
  std::string name;     ///< "hostname:pid", for people.
  std::string shard;    ///< Endpoint of the aggregator shard embedded in the rank.
  std::string mesh;     ///< Endpoint where the rank accepts TCP streams of its peers.
  std::string address;  ///< Where the coordinator saw the rank come from, without port.
  std::string tag;      ///< Free text of the user.
  bool operator==(const Member&) const = default;
};

/// What one rank does in one group. Operations of a group are numbered from 1 in call order.
struct GroupActivity {
  GroupId group;
  uint64_t posted = 0;     ///< Number of the newest operation posted; 0 if there was none.
  uint64_t completed = 0;  ///< All operations up to this number are complete.
  /// The oldest incomplete operation, "all_reduce f32[1000] sum"; if all are complete, the newest.
  std::string operation;
  milliseconds age{0};  ///< Since that operation began; since it ended, if it is complete.
  std::string tag;      ///< Free text of the user: what the rank was doing.
  /// Until the oldest incomplete operation ends with an error; 0 if there is none, or no end.
  milliseconds left{0};
  bool operator==(const GroupActivity&) const = default;
};

/// How often a rank has changed its aggregator, through all jobs of its training.
struct Moves {
  uint32_t failovers = 0;  ///< The one before was lost.
  uint32_t returns = 0;    ///< To one that was lost before.
  bool operator==(const Moves&) const = default;
};

/// For `GroupActivity::left`: milliseconds until `deadline`, at least 1; 0 if there is none, or if
/// it has passed: nobody waits for the operation now. Who waits for a month waits for ever.
inline milliseconds time_left(Instant deadline, Instant now) {
  constexpr Duration kForEver = std::chrono::hours(24 * 30);
  if (deadline == Instant::never() || deadline <= now || deadline - now >= kForEver) {
    return milliseconds(0);
  }
  return std::max(milliseconds(1), std::chrono::floor<milliseconds>(deadline - now));
}

// ---- hellos, in clear -------------------------------------------------------------------------

struct ServerHello {
  uint32_t protocol = kProtocol;
  std::string nonce;  ///< 32 random bytes in hex.
  bool sealed = true;
  bool operator==(const ServerHello&) const = default;
};
struct ClientHello {
  uint32_t protocol = kProtocol;
  std::string nonce;  ///< 32 random bytes in hex.
  bool sealed = true;
  bool operator==(const ClientHello&) const = default;
};

// ---- worker to coordinator --------------------------------------------------------------------

struct Join {
  std::string job;
  Rank rank;
  uint32_t world = 0;
  std::string host, name, shard, mesh, tag;  ///< As in Member.
  milliseconds timeout{0};                   ///< How long this rank waits for the others.
  bool operator==(const Join&) const = default;
};
/// `key` is equal on all members and tells simultaneous requests apart.
struct OpenGroup {
  std::string key;
  std::vector<Rank> ranks;  ///< Ranks of the job in the group's order.
  uint32_t payload_bytes_max = 0;
  uint32_t slots_wanted = 0;
  milliseconds timeout{0};
  /// Why this rank shares memory with nobody, for people; empty: it can with the ranks of its host.
  std::string alone{};
  /// The group whose hosts this one connects: its members are one rank of each.
  std::optional<GroupId> leaders_of{};
  bool operator==(const OpenGroup&) const = default;
};
struct CloseGroup {
  GroupId group;
  bool operator==(const CloseGroup&) const = default;
};
struct Heartbeat {
  uint32_t request = 0;  ///< The ReportNow that it answers; 0 for a periodic one.
  std::vector<GroupActivity> groups;
  Moves moves{};
  bool operator==(const Heartbeat&) const = default;
};
/// A deadline passed at this rank while it waited for operation `sequence`.
struct Overdue {
  GroupId group;
  uint64_t sequence = 0;
  std::string operation;
  milliseconds waited{0};
  bool operator==(const Overdue&) const = default;
};
/// The owner of a shard met contributions of two different operations in one slot.
struct Mismatch {
  GroupId group;
  Rank rank_a;
  uint32_t digest_a = 0;
  Rank rank_b;
  uint32_t digest_b = 0;
  bool operator==(const Mismatch&) const = default;
};
/// Answer to Describe. `sequence` 0: this rank has no such operation.
struct Description {
  GroupId group;
  uint32_t request = 0;
  uint64_t sequence = 0;
  std::string text;
  bool operator==(const Description&) const = default;
};
/// The rank ends a group by its own will, or because an exchange of messages in it failed.
struct GiveUp {
  GroupId group;
  ErrorCode code = ErrorCode::kAborted;
  std::string text;
  bool operator==(const GiveUp&) const = default;
};
/// The rank posts nothing more; `groups` is its last word on what it has done.
struct Leave {
  std::vector<GroupActivity> groups;
  bool operator==(const Leave&) const = default;
};

// ---- coordinator to worker --------------------------------------------------------------------

struct Welcome {
  Incarnation incarnation;
  Epoch epoch;
  std::vector<Member> members;      ///< Index is rank.
  std::vector<std::string> shards;  ///< The daemon's data endpoints; empty without a daemon.
  milliseconds heartbeat{0};
  bool operator==(const Welcome&) const = default;
};
/// Answer to Join (`key` empty; the connection closes) or to OpenGroup (its key).
struct Refused {
  std::string key;
  ErrorCode code = ErrorCode::kInternal;
  std::string text;
  bool operator==(const Refused&) const = default;
};
struct GroupOpened {
  std::string key;
  GroupId group;
  std::vector<Rank> ranks;
  SlotIndex slot_base;
  uint32_t slot_count = 0;
  uint32_t payload_bytes = 0;     ///< The least that a member offered.
  std::vector<uint32_t> hosts{};  ///< As in GroupPlan.
  bool operator==(const GroupOpened&) const = default;
};
/// Which operation do you have there? By number, or (`sequence` 0) by digest.
struct Describe {
  GroupId group;
  uint32_t request = 0;
  uint64_t sequence = 0;
  uint32_t digest = 0;
  bool operator==(const Describe&) const = default;
};
struct ReportNow {
  uint32_t request = 0;
  bool operator==(const ReportNow&) const = default;
};
/// Pushed to all members, with the same text. No group: everything of the job.
struct Abort {
  std::optional<GroupId> group;
  ErrorCode code = ErrorCode::kAborted;
  std::string text;
  std::vector<Rank> ranks;  ///< Whose doing it is.
  bool operator==(const Abort&) const = default;
};
struct LeftGroup {
  GroupId group;
  uint64_t completed = 0;
  bool operator==(const LeftGroup&) const = default;
};
struct Left {
  Rank rank;
  std::vector<LeftGroup> groups;
  bool operator==(const Left&) const = default;
};
/// What the rank still waits for, in words for its log; nothing follows from it. No group: it waits
/// to join, or for a group to open.
struct Waiting {
  std::optional<GroupId> group;
  std::string text;
  bool operator==(const Waiting&) const = default;
};
/// All ranks have left: embedded shards may stop.
struct Goodbye {
  bool operator==(const Goodbye&) const = default;
};

using ClientMessage = std::variant<Join, OpenGroup, CloseGroup, Heartbeat, Overdue, Mismatch,
                                   Description, Leave, GiveUp>;
using ServerMessage =
    std::variant<Welcome, Refused, GroupOpened, Describe, ReportNow, Abort, Left, Waiting, Goodbye>;

/// One JSON object without line breaks. Invalid UTF-8 in texts becomes U+FFFD.
std::string encode(const ServerHello& message);
std::string encode(const ClientHello& message);
std::string encode(const ClientMessage& message);
std::string encode(const ServerMessage& message);

/// The inverse. Control characters in texts become spaces, so that no peer can forge a line of our
/// log. Of a hello with another protocol number only that number is read. Errors:
/// kInvalidArgument, naming the kind and the field.
Result<ServerHello> decode_server_hello(std::string_view body);
Result<ClientHello> decode_client_hello(std::string_view body);
Result<ClientMessage> decode_client_message(std::string_view body);
Result<ServerMessage> decode_server_message(std::string_view body);

}  // namespace sumcast::control
