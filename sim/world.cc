#include "sim/world.h"

#include <algorithm>

#include "sim/tokens.h"

namespace sumcast::sim {

uint32_t digest_of_operation(uint32_t index) {
  // An odd multiplier permutes the 32-bit numbers; index + 1 keeps 0 out.
  return (index + 1u) * 0x9E3779B1u;
}

World::World(const WorldConfig& config, ShardRules* rules)
    : config_(config),
      checker_(config.members, config.shards, config.slots, config_.plan),
      switch_(*this) {
  config_.pool.members = config.members;
  config_.pool.slots = config_.window.slots = config.slots;
  config_.pool.operations = config_.window.operations = config.operations_max;
  if (config_.submit_at.empty()) {
    config_.submit_at.assign(config.members, std::vector<Instant>(config.plan.size(), Instant{1}));
  }
  SUMCAST_ASSERT(config_.submit_at.size() == config.members);
  std::vector<Link*> down;
  for (uint16_t m = 0; m < config.members; ++m) {
    doors_.push_back(std::make_unique<Door>());
    uplinks_.push_back(
        std::make_unique<Link>(config.uplink, mix(config.seed * 2 + 1) + m, queue_, switch_));
    downlinks_.push_back(std::make_unique<Link>(config.downlink, mix(config.seed * 2 + 2) + m,
                                                queue_, *doors_.back()));
    down.push_back(downlinks_.back().get());
  }
  for (uint16_t s = 0; s < config.shards; ++s) {
    const ShardConfig shard{s, config_.pool, config.batch, config.duty_cycle, config.payload_bytes};
    shards_.push_back(std::make_unique<ShardShell>(
        shard, queue_, down, rules != nullptr ? *rules : right_rules_, checker_));
  }
  for (uint16_t m = 0; m < config.members; ++m) {
    const WorkerConfig worker{m,
                              config_.window,
                              config.rtt,
                              config.recovery,
                              config.in_flight_max,
                              config.batch,
                              config.duty_cycle,
                              config.payload_bytes};
    workers_.push_back(std::make_unique<WorkerShell>(
        worker, config.shards, config_.plan, config_.submit_at[m], queue_, *uplinks_[m], checker_));
    doors_[m]->worker = workers_.back().get();
  }
}

void World::Switch::on_datagrams(std::span<const Datagram> datagrams, Instant now) {
  std::vector<bool> touched(world.shards_.size(), false);
  for (const Datagram& datagram : datagrams) {
    world.shards_[datagram.shard]->on_datagram(datagram, now);
    touched[datagram.shard] = true;
  }
  for (size_t s = 0; s < touched.size(); ++s) {
    if (touched[s]) world.shards_[s]->on_batch_end(now);
  }
}

Outcome World::run() {
  const Instant end = queue_.now() + config_.give_up_after;
  while (!queue_.empty() && !checker_.failed() && queue_.next_at() <= end) queue_.run_one();
  if (!checker_.failed()) checker_.on_end();
  return outcome();
}

Outcome World::outcome() const {
  Outcome out;
  out.violation = checker_.violation();
  out.complete = std::ranges::all_of(workers_, [](const auto& w) { return w->done(); });
  for (const auto& worker : workers_) {
    out.finished_at = std::max(out.finished_at, worker->finished_at());
    const WorkerShell::Counters& c = worker->counters();
    out.workers.repeats += c.repeats;
    out.workers.probes += c.probes;
    out.workers.gaps += c.gaps;
    out.workers.asks_heard += c.asks_heard;
    out.workers.asks_ignored += c.asks_ignored;
    out.workers.results_duplicate += c.results_duplicate;
  }
  for (const auto& shard : shards_) {
    const ShardShell::Counters& c = shard->counters();
    out.shards.accepted += c.accepted;
    out.shards.completed += c.completed;
    out.shards.duplicate += c.duplicate;
    out.shards.answered += c.answered;
    out.shards.stale += c.stale;
    out.shards.asks += c.asks;
    out.shards.probes_heard += c.probes_heard;
    out.shards.gaps_heard += c.gaps_heard;
    out.shards.strangers += c.strangers;
  }
  const auto add = [](Link::Counters& sum, const Link::Counters& c) {
    sum.sent += c.sent;
    sum.bytes += c.bytes;
    sum.overflowed += c.overflowed;
    sum.lost += c.lost;
    sum.doubled += c.doubled;
    sum.other_life += c.other_life;
  };
  for (const auto& link : uplinks_) add(out.uplinks, link->counters());
  for (const auto& link : downlinks_) add(out.downlinks, link->counters());
  return out;
}

}  // namespace sumcast::sim
