#include "sim/loss_cost.h"

#include <algorithm>

namespace sumcast::sim {
namespace {

WorldConfig world_of(const LossCostConfig& config, uint64_t seed) {
  WorldConfig world;
  world.seed = seed;
  world.members = config.members;
  world.slots = config.slots;
  world.in_flight_max = config.in_flight_max;
  world.duty_cycle = config.duty_cycle;
  world.plan = {OperationPlan{digest_of_operation(0), 0, {config.chunks}}};
  LinkConfig link;
  link.rate_bits_per_second = config.link_bits_per_second;
  link.delay = config.delay;
  link.keeps_batches = config.keeps_batches;
  link.faults.loss = config.loss;
  world.uplink = world.downlink = link;
  world.window.reorder_window = world.pool.reorder_window = config.reorder_window;
  world.window.gap_interval = config.gap_interval;
  world.pool.ask_interval = config.ask_interval;
  world.rtt = config.rtt;
  world.recovery = config.recovery;
  return world;
}

}  // namespace

LossCost loss_cost(const LossCostConfig& config, uint32_t seeds) {
  LossCost cost;
  const double needed = double(config.chunks) * config.members * seeds;
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    const WorldConfig world = world_of(config, seed);
    const Outcome outcome = World(world).run();
    SUMCAST_ASSERT(outcome.violation.empty());
    SUMCAST_ASSERT(outcome.complete);
    const double milliseconds = double(outcome.finished_at.ns) / 1e6;
    cost.milliseconds += milliseconds / seeds;
    cost.worst = std::max(cost.worst, milliseconds);
    cost.repeats_share += double(outcome.workers.repeats) / needed;
    cost.wasted_share += double(outcome.shards.duplicate + outcome.shards.answered +
                                outcome.workers.results_duplicate) /
                         needed;
    cost.probes += double(outcome.workers.probes) / config.members / seeds;
  }
  const double wire_ms = double(config.chunks) * bytes_on_link(WorldConfig{}.payload_bytes) * 8e3 /
                         double(config.link_bits_per_second);
  cost.over_wire = cost.milliseconds / wire_ms;
  return cost;
}

}  // namespace sumcast::sim
