// What the workers of a simulated group are going to call, in order; all alike.
#pragma once

#include <cstdint>
#include <vector>

namespace sumcast::sim {

struct OperationPlan {
  uint32_t digest = 0;
  uint32_t first_slot = 0;
  std::vector<uint32_t> totals;  ///< Chunks per shard; 0 where a shard owns none.
};

}  // namespace sumcast::sim
