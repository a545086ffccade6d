// The thread behind CoordinatorServer: sockets on one side, the pure Coordinator on the other.
//
// Inside the room only. One mutex guards everything that status reads; the loop holds it while it
// works and lets go while it waits. Mismatches from shard threads come through a mailbox with a
// mutex of its own, so that those threads never wait for the loop.
//
// A peer's life:  kHello --its hello--> kProving --first frame that opens--> kMember
// and from any of these to closing: what is queued is sent, our side is shut, and the peer gets a
// moment to close its own; closing at once could make the kernel drop our last words.
#pragma once

#include <atomic>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "control/frames.h"
#include "control/server.h"
#include "net/poll.h"
#include "net/tcp.h"

namespace sumcast::control {

/// Events at the door, since the start.
struct DoorCounters {
  uint64_t accepted = 0;
  uint64_t authenticated = 0;
  uint64_t wrong_key = 0;    ///< The first frame did not open.
  uint64_t wrong_hello = 0;  ///< Not our protocol, another version, or sealed against unsealed.
  uint64_t timed_out = 0;    ///< Strangers that stayed too long.
  uint64_t crowded_out = 0;  ///< Strangers that gave way to newer ones, and peers beyond the limit.
  uint64_t malformed = 0;    ///< Members whose frame did not open or decode.
};

class ServerLoop : private CoordinatorSink {
 public:
  ServerLoop(ServerOptions options, JobObserver& observer, net::TcpListener listener,
             net::Poller poller, net::WakeUp wake_up);
  /// Registers listener and wake-up, and starts the thread.
  Result<void> start();
  ~ServerLoop() override;

  const net::Endpoint& endpoint() const { return listener_.local(); }
  void report_mismatch(Incarnation incarnation, const Mismatch& mismatch);
  nlohmann::json status_json() const;
  void stop();

 private:
  enum class PeerState : uint8_t { kHello, kProving, kMember };
  struct Peer {
    explicit Peer(net::TcpConnection connection) : tcp(std::move(connection)) {}

    net::TcpConnection tcp;
    PeerState state = PeerState::kHello;
    auth::ControlNonce nonce{};  // Ours.
    FrameSeal seal;
    Instant deadline = Instant::never();  // A stranger's, or a closing peer's.
    bool is_closing = false;
    bool wants_write = false;
    std::optional<ClientMessage> first;  // What it proved itself with, until it is delivered.
    std::string cause;                   // Set: it is lost, for that reason.
  };
  using Peers = std::map<ConnectionId, Peer>;

  // server_loop.cc
  void run();
  void turn(Instant until);
  Instant next_deadline() const;
  void notice_pause(Instant began, Instant due);
  void take_mail();
  void expire();
  void flush(ConnectionId id, Peer& peer);
  void hear_last_words(ConnectionId id, Peer& peer);
  void remove_lost();
  void say_farewell();

  // server_door.cc
  void accept_all();
  void make_room();
  void greet(net::TcpConnection connection);
  void on_readable(ConnectionId id, Peer& peer);
  bool on_frame(ConnectionId id, Peer& peer, std::span<const std::byte> frame);
  void on_hello(Peer& peer, std::span<const std::byte> frame);
  void on_proof(Peer& peer, std::span<const std::byte> frame);
  void on_member_frame(ConnectionId id, Peer& peer, std::span<const std::byte> frame);
  void admit(ConnectionId id, Peer& peer);
  void start_closing(Peer& peer);

  // CoordinatorSink, called by coordinator_ on this thread.
  Incarnation fresh_incarnation() override;
  void send(std::span<const ConnectionId> connections, const ServerMessage& message) override;
  void close(ConnectionId connection) override;
  void job_started(const JobPlan& plan) override;
  void group_opened(const GroupPlan& plan) override;
  void group_closed(Incarnation incarnation, GroupId group) override;
  void job_ended(Incarnation incarnation) override;

  ServerOptions options_;
  JobObserver& observer_;
  net::TcpListener listener_;
  net::Poller poller_;
  net::WakeUp wake_up_;
  Instant listen_again_;  // Set while accepting pauses, out of descriptors.

  mutable std::mutex mutex_;  // Guards what follows up to the mailbox.
  Coordinator coordinator_;
  Peers peers_;           // Ascending id is ascending age.
  uint64_t last_id_ = 1;  // Tokens 0 and 1 are the listener's and the wake-up's.
  DoorCounters counters_;
  std::set<Incarnation> incarnations_;  // Of jobs that run.
  Instant now_;                         // Of the current turn of the loop.

  std::mutex mail_mutex_;
  std::vector<std::pair<Incarnation, Mismatch>> mail_;

  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

}  // namespace sumcast::control
