#include "sim/random_world.h"

#include "base/prng.h"
#include "sim/tokens.h"

namespace sumcast::sim {
namespace {

Duration microseconds(uint64_t count) { return std::chrono::microseconds(count); }

FaultPlan random_faults(Prng& prng, Weather weather) {
  FaultPlan faults;
  const bool storm = weather == Weather::kStorm;
  if (weather == Weather::kLoss || storm) faults.loss = 0.2 * prng.unit() * prng.unit();
  if (weather == Weather::kShuffled || storm) {
    faults.duplication = 0.3 * prng.unit();
    faults.reordering = 0.3 * prng.unit();
    // Late by up to many round trips: a repeat may arrive phases after it was sent.
    faults.held_max = microseconds(100 + prng.below(40'000));
    if (prng.chance(0.5)) faults.jitter_max = microseconds(prng.below(500));
  }
  if (weather == Weather::kBursts || storm) {
    faults.burst_begin = 0.02 * prng.unit();
    faults.burst_end = 0.1 + 0.5 * prng.unit();
  }
  if ((weather == Weather::kOutages || storm) && prng.chance(0.5)) {
    const Instant from = Instant{1} + microseconds(prng.below(5'000));
    faults.outages.push_back({from, from + microseconds(1 + prng.below(60'000))});
  }
  if (storm) faults.other_life = 0.1 * prng.unit();
  return faults;
}

LinkConfig random_link(Prng& prng, Weather weather) {
  constexpr uint64_t kRates[] = {0, 30'000'000, 300'000'000, 10'000'000'000};
  LinkConfig link;
  link.rate_bits_per_second = kRates[prng.below(4)];
  link.delay = microseconds(prng.below(300));
  link.queue_bytes_max = 3'000 + prng.below(100'000);  // From two datagrams on.
  link.keeps_batches = prng.chance(0.5);
  link.faults = random_faults(prng, weather);
  return link;
}

std::vector<OperationPlan> random_plan(Prng& prng, const WorldConfig& world) {
  std::vector<OperationPlan> plan(1 + prng.below(12));
  const uint64_t chunks_max = prng.chance(0.5) ? 3 : 24;
  for (uint32_t i = 0; i < plan.size(); ++i) {
    plan[i].digest = digest_of_operation(i);
    plan[i].first_slot = static_cast<uint32_t>(prng.below(100));
    for (uint16_t s = 0; s < world.shards; ++s) {
      plan[i].totals.push_back(static_cast<uint32_t>(prng.below(chunks_max + 1)));
    }
    // An operation has a chunk somewhere.
    plan[i].totals[prng.below(world.shards)] += 1;
  }
  return plan;
}

}  // namespace

const char* name_of(Weather weather) {
  switch (weather) {
    case Weather::kCalm:
      return "Calm";
    case Weather::kLoss:
      return "Loss";
    case Weather::kShuffled:
      return "Shuffled";
    case Weather::kBursts:
      return "Bursts";
    case Weather::kOutages:
      return "Outages";
    case Weather::kStorm:
      return "Storm";
  }
  return "?";
}

WorldConfig random_world(uint64_t seed, Weather weather) {
  Prng prng(mix(seed) + static_cast<uint64_t>(weather));
  WorldConfig world;
  world.seed = seed;
  world.members = static_cast<uint16_t>(1 + prng.below(5));
  world.shards = static_cast<uint16_t>(1 + prng.below(3));
  world.slots = static_cast<uint16_t>(1 + prng.below(prng.chance(0.5) ? 3 : 16));
  world.operations_max = static_cast<uint16_t>(1 + prng.below(prng.chance(0.5) ? 3 : 16));
  world.uplink = random_link(prng, weather);
  world.downlink = random_link(prng, weather);
  world.plan = random_plan(prng, world);
  world.in_flight_max = static_cast<uint32_t>(1 + prng.below(world.slots));
  world.batch = static_cast<uint32_t>(1 + prng.below(44));
  if (prng.chance(0.5)) world.duty_cycle = microseconds(prng.below(300));
  world.window.reorder_window = world.pool.reorder_window = microseconds(prng.below(3'000));
  // Much below a round trip with full queues, repeated asks alone would fill the links.
  world.window.gap_interval = world.pool.ask_interval = microseconds(2'000 + prng.below(10'000));
  if (prng.chance(0.5))
    world.recovery = RecoveryPolicy{.silence_factor = 1, .ask_ahead_probes = true};
  for (uint16_t m = 0; m < world.members; ++m) {
    Instant at = Instant{1} + microseconds(prng.below(2'000));
    auto& times = world.submit_at.emplace_back();
    for (size_t i = 0; i < world.plan.size(); ++i) {
      times.push_back(at);
      if (prng.chance(0.3)) at = at + microseconds(prng.below(4'000));
    }
  }
  return world;
}

}  // namespace sumcast::sim
