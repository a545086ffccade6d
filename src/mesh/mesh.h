// TCP streams between the ranks of a job, for the baselines.
//
// There is one stream per (group, peer, lane), made when it is first needed and kept until the
// group closes. The lower rank connects, the higher one waits for it, so that two ranks never open
// crosswise; only streams of messages (message.h) are opened by whoever sends. All members of a
// group call the same collectives in the same order, hence both ends need a stream at about the
// same time; a rank waits only for lower ranks, so no circle of waiting can form.
//
// It does not know what is sent. Every wait has a deadline, and every error names the peer.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "auth/secret.h"
#include "base/ids.h"
#include "base/result.h"
#include "base/time.h"
#include "mesh/door.h"
#include "mesh/scratch.h"
#include "mesh/stream.h"
#include "net/address.h"

namespace sumcast::mesh {

/// Accepted streams that a mesh keeps at most; a rank of a large job needs a few per peer.
inline constexpr size_t kStreamsMax = 8192;
/// The coordinator knows more about a peer whose stream broke; its word is waited for so long.
inline constexpr Duration kSuspicion = 1s;

/// Thread-safe. A group and lane serve one collective at a time; different ones are independent.
class Mesh {
 public:
  /// Listens at once, so that endpoint() can be announced at join; lets nobody in before start().
  ///
  /// @param local  where to listen and, unless a wildcard, the address to connect from.
  /// @param key    the job's key; nullopt (`--insecure`): peers are believed.
  /// Errors: kUnavailable (port taken), kSystem.
  static Result<std::unique_ptr<Mesh>> open(const net::Endpoint& local,
                                            std::optional<auth::Key> key);
  /// Ends all streams. No call may be under way (abort_all() first, then wait for them).
  ~Mesh();

  /// With the port that was given. The address is what was asked for, wildcard included.
  const net::Endpoint& endpoint() const { return door_->endpoint(); }

  /// Opens the door. Called once, before any stream is asked for.
  /// @param peers  where each rank of the job listens, by rank; its own entry is not looked at.
  void start(Incarnation incarnation, Rank me, std::vector<net::Endpoint> peers);
  Rank me() const { return me_; }

  /// Takes over the streams that peers open for messages (lane kMessageLane). Called on the door's
  /// thread, without locks of the mesh.
  struct MessageHost {
    std::function<bool(GroupId, Rank peer)> wants;  ///< Before the peer is told that it may send.
    std::function<void(GroupId, Rank peer, std::shared_ptr<Stream>)> admit;
  };
  /// When it returns, the former host is not called any more. Empty: such streams are refused.
  void set_message_host(MessageHost host);

  /// The stream to `peer`, made if there is none yet.
  ///
  /// Errors: kTimeout (the peer has not opened it, or does not answer), kUnavailable (refused, no
  /// route), kDenied (wrong key, other job), kAborted (the group was aborted).
  Result<std::shared_ptr<Stream>> stream(GroupId group, Rank peer, uint8_t lane, Instant deadline);

  /// Why the group may not go on, if so.
  std::optional<Error> aborted(GroupId group) const;

  /// A call of the group cannot go on: ends the group's streams, so that its peers see that at
  /// once, and waits for the reason, until `until` at most. Nothing if abort() was not called by
  /// then.
  std::optional<Error> await_reason(GroupId group, Instant until);

  /// Ends the group's streams: calls under way return soon with `reason`, later ones at once, and
  /// the peers see their streams close. The first reason stays.
  void abort(GroupId group, const Error& reason = {ErrorCode::kAborted, "the group was aborted"});
  void abort_all(const Error& reason = {ErrorCode::kAborted, "this rank is leaving the job"});

  /// Forgets the group, an abort included. Its id may come again once all members have closed it.
  void close_group(GroupId group);

  /// "rank 3 at 10.77.1.4:40001".
  std::string name_of(Rank rank) const;

  /// Working memory for one collective.
  Scratch scratch(size_t bytes) { return scratch_.take(bytes); }

 private:
  struct StreamKey {
    GroupId group;
    Rank peer;
    uint8_t lane;
    auto operator<=>(const StreamKey&) const = default;
  };
  /// A stream's place. While `opening` a thread of ours is connecting it, and `stream` is there
  /// only so that an abort can end the attempt.
  struct Place {
    // Shared by the table and the call that uses it: an abort takes it from the one while the
    // other is still inside recv(), and the descriptor must stay open until then.
    std::shared_ptr<Stream> stream;
    bool opening = false;
  };
  using Lock = std::unique_lock<std::mutex>;

  Mesh() = default;

  bool wants(const Hello& hello) const;
  void admit(const Hello& hello, net::TcpConnection connection);
  std::optional<Error> aborted_locked(GroupId group) const;
  void shut_group_locked(GroupId group);
  Result<std::shared_ptr<Stream>> connect(const StreamKey& key, Instant deadline, Lock& lock);
  Result<net::TcpConnection> reach(const StreamKey& key, Instant deadline) const;
  Result<std::shared_ptr<Stream>> attempt(const StreamKey& key, Instant deadline, Lock& lock);
  Result<void> pause(GroupId group, Duration span, Lock& lock);

  net::Endpoint local_;
  std::optional<auth::Key> key_;
  Incarnation incarnation_;
  Rank me_;
  std::vector<net::Endpoint> peers_;  ///< Fixed by start().
  ScratchPool scratch_;

  mutable std::mutex mutex_;  ///< Guards what follows.
  std::condition_variable changed_;
  std::map<StreamKey, Place> places_;
  std::map<GroupId, Error> aborted_;
  std::optional<Error> all_aborted_;

  mutable std::mutex host_mutex_;  ///< Held while the host is called; never inside mutex_.
  MessageHost message_host_;

  std::unique_ptr<Door> door_;  ///< Last: its thread uses the rest.
};

}  // namespace sumcast::mesh
