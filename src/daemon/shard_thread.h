// An agent: one thread that owns one UDP port and everything that happens on it.
//
// Datagrams never change threads: a port's sockets, its pools and its poller belong to the thread
// of this class, and so the data path has no lock. Others talk to it only by posting commands,
// which it takes between two turns of its duty cycle:
//
//     wait(next deadline) -> commands -> receive what is ready -> timers -> flush -> publish
//
// The clock is read once per turn, after the wait; all that happens in the turn happens then.
//
// A command returns a ticket, and wait_until_done(ticket) is how the control thread makes sure
// that all threads know a group before its members hear of it. The thread itself never waits for
// anybody, so such a wait ends.
//
// It does not know who decides on jobs and groups (control/), nor what is in a datagram.
#pragma once

#include <array>
#include <condition_variable>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "auth/secret.h"
#include "base/result.h"
#include "base/time.h"
#include "collective/shard_host.h"
#include "control/plan.h"
#include "net/poll.h"

namespace sumcast::daemon {

struct ShardThreadOptions {
  uint16_t index = 0;    ///< Of the shard in every job: 0 for the first thread.
  net::Endpoint listen;  ///< UDP; port 0 takes a free one.
  int socket_buffer_bytes = 212992;
  net::FaultPlan faults;
  Duration spin{0};       ///< How long to look for datagrams before sleeping.
  bool multicast = true;  ///< Results to all at once (P19).
  /// Called on this thread; must not wait for it.
  collective::MismatchObserver on_mismatch;
};

/// What a thread had seen and done when it last published.
struct ShardThreadReport {
  collective::ShardCounters shard;
  uint64_t socket_drops = 0;  ///< Datagrams that the kernel dropped, at least; never goes back.
  uint64_t cycles = 0;
  Duration cycle_max{0};                                    ///< Longest turn, without its wait.
  uint64_t cycles_overrun = 0;                              ///< Turns longer than kCycleOverrun.
  Duration cpu{0};                                          ///< CPU time of the thread.
  std::map<Incarnation, std::vector<Duration>> waited_for;  ///< As ShardHost::waited_for().
};

/// A turn so long delays other members' datagrams by more than a retransmission timeout.
inline constexpr Duration kCycleOverrun = 10ms;

class ShardThread {
 public:
  /// A command's number: all commands up to it are done when it is.
  using Ticket = uint64_t;

  /// Opens the port and starts the thread.
  /// Errors: kUnavailable (the port is taken, by whom if known), kUnsupported (the thread's
  /// floating point is not the default, so that its sums would differ), kSystem.
  static Result<std::unique_ptr<ShardThread>> start(ShardThreadOptions options);
  /// Ends the turn under way and stops.
  ~ShardThread();
  ShardThread(const ShardThread&) = delete;
  ShardThread& operator=(const ShardThread&) = delete;

  // All of these may be called from any thread but this one.

  const net::Endpoint& endpoint() const { return endpoint_; }
  /// Set if the kernel granted a smaller receive buffer than was asked for: what to do about it.
  const std::optional<std::string>& buffer_advice() const { return buffer_advice_; }

  Ticket start_job(const control::JobPlan& plan, const std::optional<auth::Key>& key);
  Ticket open_group(const control::GroupPlan& plan);
  Ticket close_group(Incarnation incarnation, GroupId group);
  Ticket end_job(Incarnation incarnation);
  /// Publishes the report; also a way to ask whether the thread is alive.
  Ticket publish();

  /// False if the thread has not done it by the deadline.
  bool wait_until_done(Ticket ticket, Instant deadline);
  /// As last published: at most 100 ms old while there is traffic, exact when it is idle.
  ShardThreadReport report() const;

 private:
  using Command = std::function<void(collective::ShardHost&)>;

  ShardThread(net::Poller poller, net::WakeUp wake_up);

  Ticket post(Command command);
  void run(std::promise<Result<void>> started);
  void turn();
  void run_commands();
  void end_job_now(collective::ShardHost& host, Incarnation incarnation);
  void publish_now(Instant now);

  net::Endpoint endpoint_;
  std::optional<std::string> buffer_advice_;

  // The thread's own.
  net::Poller poller_;
  net::WakeUp wake_up_;
  std::unique_ptr<collective::ShardHost> host_;
  ShardThreadReport current_;
  uint64_t drops_of_ended_jobs_ = 0;  // Their sockets are closed, and their counters with them.
  bool is_unpublished_ = false;       // Something has happened since the last publication.
  Instant next_publication_;
  bool has_stopped_ = false;

  mutable std::mutex mutex_;  // Guards what follows.
  std::condition_variable done_changed_;
  std::vector<Command> commands_;
  Ticket posted_ = 0;
  Ticket done_ = 0;
  ShardThreadReport published_;
  bool stopping_ = false;

  std::thread thread_;
};

}  // namespace sumcast::daemon
