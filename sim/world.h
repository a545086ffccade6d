// A whole simulated job: workers and shards around one switch, each worker behind its own uplink
// and downlink, one checker over all of it. Same configuration, same run.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "sim/shard_shell.h"
#include "sim/worker_shell.h"

namespace sumcast::sim {

struct WorldConfig {
  uint16_t members = 2;
  uint16_t shards = 1;
  uint16_t slots = 4;             ///< Of each shard.
  uint16_t operations_max = 256;  ///< Incomplete at once, in windows and pools.
  LinkConfig uplink, downlink;    ///< Each worker has one of both.
  std::vector<OperationPlan> plan;
  /// submit_at[member][operation]; not descending. Empty: all operations at once, at the start.
  std::vector<std::vector<Instant>> submit_at;
  core::SendWindowConfig window;  ///< Slots and operations are taken from above.
  core::SlotPoolConfig pool;      ///< Members, slots and operations are taken from above.
  core::RttEstimator::Config rtt;
  RecoveryPolicy recovery;
  uint32_t in_flight_max = 65535;
  uint32_t batch = 44;
  Duration duty_cycle{};
  uint32_t payload_bytes = 1408;
  Duration give_up_after = std::chrono::seconds(300);  ///< Virtual time; then I6 is violated.
  uint64_t seed = 1;
};

struct Outcome {
  bool complete = false;
  Instant finished_at{};  ///< When the last worker held its last result.
  std::string violation;  ///< Empty, or what went wrong first.
  WorkerShell::Counters workers;
  ShardShell::Counters shards;
  Link::Counters uplinks, downlinks;
};

class World {
 public:
  /// @param rules null: the right ones. Must outlive the world.
  explicit World(const WorldConfig& config, ShardRules* rules = nullptr);
  /// Runs until nothing is left to happen, the checker objects, or give_up_after has passed.
  Outcome run();

 private:
  /// Hands what comes out of the uplinks to the shards.
  struct Switch : Sink {
    explicit Switch(World& w) : world(w) {}
    void on_datagrams(std::span<const Datagram> datagrams, Instant now) override;
    World& world;
  };
  /// Downlinks are made before the workers that they lead to.
  struct Door : Sink {
    void on_datagrams(std::span<const Datagram> datagrams, Instant now) override {
      worker->on_datagrams(datagrams, now);
    }
    WorkerShell* worker = nullptr;
  };

  Outcome outcome() const;

  WorldConfig config_;
  ShardRules right_rules_;
  EventQueue queue_;
  ExactlyOnceChecker checker_;
  Switch switch_;
  std::vector<std::unique_ptr<Link>> uplinks_, downlinks_;
  std::vector<std::unique_ptr<Door>> doors_;
  std::vector<std::unique_ptr<ShardShell>> shards_;
  std::vector<std::unique_ptr<WorkerShell>> workers_;
};

/// Digests of a plan's operations must differ, as those of the wire do; 0 is none.
uint32_t digest_of_operation(uint32_t index);

}  // namespace sumcast::sim
