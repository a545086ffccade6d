// Which seeds a test run uses: set by the test program's main, which alone reads the environment.
#pragma once

#include <cstdint>
#include <optional>

namespace sumcast::sim {

struct SeedChoice {
  std::optional<uint64_t> only;  ///< Run this one alone: SUMCAST_SIM_SEED=n or --seed=n.
  uint64_t worlds = 1000;        ///< Per weather: SUMCAST_SIM_WORLDS=n or --worlds=n.
  uint64_t first = 1;            ///< SUMCAST_SIM_FIRST=n or --first=n: fresh seeds for CI.
};
SeedChoice& seed_choice();

}  // namespace sumcast::sim
