// Worlds drawn from a seed: sizes, operations, links and faults of one kind of weather.
#pragma once

#include <cstdint>

#include "sim/world.h"

namespace sumcast::sim {

enum class Weather : uint8_t {
  kCalm,      ///< Nothing goes wrong, but members are slow in turn and queues are finite.
  kLoss,      ///< Independent loss, up to 20 %.
  kShuffled,  ///< Duplication and reordering over "several paths", far beyond a round trip.
  kBursts,    ///< Losses in a row.
  kOutages,   ///< Links that go dark for a while.
  kStorm,     ///< All of it, with datagrams of another life of the job.
};
inline constexpr int kWeathers = 6;
const char* name_of(Weather weather);

/// The same seed and weather give the same world.
WorldConfig random_world(uint64_t seed, Weather weather);

}  // namespace sumcast::sim
