// What loss costs: the virtual time of one long operation, against the time that the wire needs.
//
// The world is that of design.md 7: n workers behind links shaped both ways, the aggregator behind
// a port per worker that is not, datagrams in batches of up to 44, loss per datagram in both
// directions, repairs included.
#pragma once

#include <cstdint>

#include "sim/world.h"

namespace sumcast::sim {

struct LossCostConfig {
  uint16_t members = 8;
  uint64_t link_bits_per_second = 300'000'000;
  uint32_t chunks = 18'618;  ///< 25 MiB of f32 at 1,408 bytes a datagram.
  uint16_t slots = 176;
  uint32_t in_flight_max = 65535;
  double loss = 0;
  Duration delay = std::chrono::microseconds(50);
  Duration duty_cycle = std::chrono::microseconds(50);
  bool keeps_batches = true;
  /// Recovery, as the shells and the core are to be tuned.
  Duration reorder_window = std::chrono::milliseconds(1);
  Duration ask_interval = std::chrono::milliseconds(10);
  Duration gap_interval = std::chrono::milliseconds(10);
  core::RttEstimator::Config rtt;
  RecoveryPolicy recovery;
};

struct LossCost {
  double milliseconds = 0;   ///< Mean over the seeds.
  double worst = 0;          ///< The slowest seed.
  double over_wire = 0;      ///< Mean, over the time the bytes of all chunks need on one link.
  double repeats_share = 0;  ///< Contributions sent again, of all that were needed.
  double wasted_share = 0;   ///< Contributions and results that came twice, of all needed.
  double probes = 0;         ///< Per member and run.
};

/// Runs seeds 1..seeds. A violation of the checker stops the process: it is a bug of the core.
LossCost loss_cost(const LossCostConfig& config, uint32_t seeds);

}  // namespace sumcast::sim
