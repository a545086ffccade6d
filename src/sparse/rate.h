// Which rates a step may have, where they change between steps. Inside the room only.
#pragma once

#include <cmath>

#include "table/optimizer.h"

namespace sumcast::sparse {

/// 0 moves nothing, as schedules end; FTRL divides by it.
inline bool is_rate(float rate, table::OptimizerKind kind) {
  return std::isfinite(rate) && (rate > 0 || (rate == 0 && kind != table::OptimizerKind::kFtrl));
}

}  // namespace sumcast::sparse
