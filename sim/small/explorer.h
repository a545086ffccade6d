// Depth first through every state of a small world. States that were seen before are not entered
// again, which makes the orders of independent steps collapse.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/small/small_world.h"

namespace sumcast::sim {

struct Exploration {
  uint64_t states = 0;
  bool exhausted = false;         ///< False: a violation was found, or states_max reached.
  std::string violation;          ///< Empty, or what went wrong.
  std::vector<std::string> path;  ///< The steps that lead there.
};

/// Visits every state that can be reached, and checks from each that the world finishes once
/// faults end.
Exploration explore(const SmallWorldConfig& config, uint64_t states_max);

}  // namespace sumcast::sim
