// The authority over join, groups and abort: a pure state machine.
//
// Every wait of a job ends here, because one place knows who has come, who is alive and what each
// rank last did; so an error can name all who are missing, and everybody gets the same one.
// It does not know sockets, threads, clocks or keys: connections are numbers, `now` comes in, and
// everything it wants done goes to a sink. Many jobs live side by side, told apart by name.
//
// A Coordinator only routes: connections to jobs, and time to all of them. What happens in a job
// is class Job, one file for each mechanism: job_join.cc, job_groups.cc, job_liveness.cc and
// job_inquiry.cc (late and mismatching operations).
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/time.h"
#include "control/messages.h"
#include "control/plan.h"
#include "control/status.h"

namespace sumcast::control {

/// One accepted and authenticated connection; never reused.
using ConnectionId = Id<struct ConnectionTag, uint64_t>;

struct CoordinatorConfig {
  std::string where;                ///< "10.0.0.1:4711", how error texts call this coordinator.
  std::vector<std::string> shards;  ///< The daemon's data endpoints; empty without a daemon.
  uint32_t slots_per_job = 1024;    ///< Slots of each job's pool, 1..65535.
  Duration heartbeat = 250ms;       ///< How often ranks report.
  Duration death =
      1500ms;  ///< A rank silent for so long is dead: leaves 0.5 s of the 2 s promised.
  Duration inquiry = 200ms;  ///< How long answers about a late or mismatching operation may take.
  Duration join_wait = 5s;   ///< A connection that does not join for so long is closed.
  /// Who waits so long is told for what: to join; for an operation, or a group to open. It is told
  /// again whenever it has waited twice as long.
  Duration notice_join = 5s;
  Duration notice = 30s;
  uint32_t jobs_max = 64;      ///< Jobs at once.
  uint32_t world_max = 1024;   ///< Ranks of a job.
  uint32_t pending_max = 256;  ///< Groups of a job that wait for members at once.
};

/// Where the coordinator's effects go. Calls must not block and must not call back.
class CoordinatorSink : public JobObserver {
 public:
  /// A random number, unpredictable and not zero: the incarnation of a job about to start.
  virtual Incarnation fresh_incarnation() = 0;
  /// The same message to each: what goes to a whole world is encoded once.
  virtual void send(std::span<const ConnectionId> connections, const ServerMessage& message) = 0;
  /// Sends what is queued, then closes. The owner then calls on_disconnected like for any other.
  virtual void close(ConnectionId connection) = 0;
};

class Job;

/// Single-threaded. `now` never goes back.
class Coordinator {
 public:
  /// `sink` outlives the coordinator.
  Coordinator(CoordinatorConfig config, CoordinatorSink& sink);
  ~Coordinator();
  Coordinator(const Coordinator&) = delete;
  Coordinator& operator=(const Coordinator&) = delete;

  /// `address`: where the connection comes from, without port.
  void on_connected(ConnectionId connection, std::string address, Instant now);
  void on_message(ConnectionId connection, const ClientMessage& message, Instant now);
  /// Once for every connection. `cause`: "connection closed", for the rank's obituary.
  void on_disconnected(ConnectionId connection, std::string_view cause, Instant now);
  /// A shard of the daemon met two operations in one slot.
  void on_mismatch(Incarnation incarnation, const Mismatch& mismatch, Instant now);
  /// To be called when next_deadline() has passed; harmless at any other time.
  void on_timeout(Instant now);
  /// The owner has not listened for `span`, up to `now`: that time counts as nobody's silence.
  void on_pause(Duration span, Instant now);
  /// The coordinator is about to stop: everything of every job is aborted with that reason.
  void on_shutdown();

  /// When something is due next if nothing else happens.
  Instant next_deadline() const;
  CoordinatorStatus status(Instant now) const;

 private:
  struct Connection {
    std::string address;
    Instant join_deadline;
    bool asked = false;  // Has sent its one join.
    Job* job = nullptr;  // Set while it belongs to a job.
    Rank rank;
  };

  void on_join(ConnectionId id, Connection& connection, const Join& join, Instant now);
  void refuse(ConnectionId id, const Error& error);
  void bury_jobs();

  CoordinatorConfig config_;
  CoordinatorSink& sink_;
  CoordinatorCounters counters_;
  std::map<ConnectionId, Connection> connections_;
  std::map<std::string, std::unique_ptr<Job>> jobs_;
};

}  // namespace sumcast::control
