// The coordinator as a network service: one thread, one listener, any number of jobs.
//
// It carries frames between sockets and the pure Coordinator, and keeps strangers out: a peer is
// nobody until a frame of its opens under the key. Until then it may send 4 KiB a frame, stay for
// two seconds, and be one of a bounded number, of whom the oldest gives way; so a port scan costs
// nothing and stops nobody from joining.
//
// What happens in a job is coordinator.h. The loop behind this front is server_loop.h.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>

#include "auth/secret.h"
#include "base/result.h"
#include "control/coordinator.h"
#include "net/address.h"

namespace sumcast::control {

struct ServerOptions {
  net::Endpoint listen;           ///< Port 0 takes any free one.
  std::optional<auth::Key> key;   ///< Of the workers' key file; none: insecure, anyone may join.
  CoordinatorConfig coordinator;  ///< `where` may be empty: then it is the endpoint.
  uint32_t connections_max = 4096;
  uint32_t strangers_max = 128;  ///< Connections that have not proved themselves.
  Duration stranger_time = 2s;   ///< How long they may stay.
};

class ServerLoop;

class CoordinatorServer {
 public:
  /// Listens, and starts the thread. `observer` outlives the server; it is called on the server's
  /// thread, before the members hear of what it is told, and must not call back.
  /// Errors: kUnavailable (the port is taken), kSystem.
  static Result<std::unique_ptr<CoordinatorServer>> start(ServerOptions options,
                                                          JobObserver& observer);
  /// Stops.
  ~CoordinatorServer();
  CoordinatorServer(const CoordinatorServer&) = delete;
  CoordinatorServer& operator=(const CoordinatorServer&) = delete;

  // All of these may be called from any thread (but not from the observer's calls).

  const net::Endpoint& endpoint() const;
  /// A shard of the daemon met two operations in one slot.
  void report_mismatch(Incarnation incarnation, const Mismatch& mismatch);
  /// Jobs, ranks, groups and counters, for status pages.
  nlohmann::json status_json() const;
  /// Tells all members that the coordinator goes, and returns after 300 ms at most, whatever they
  /// do. Afterwards nothing is called back.
  void stop();

 private:
  explicit CoordinatorServer(std::unique_ptr<ServerLoop> loop);

  std::unique_ptr<ServerLoop> loop_;
};

}  // namespace sumcast::control
