// The clock: the only place that reads one. Everything above receives an Instant.
#pragma once

#include <string>

#include "base/time.h"

namespace sumcast::runtime {

/// Now, on CLOCK_MONOTONIC. Always above zero, since zero means "unset".
Instant monotonic_now();

/// The wall clock as text for people and reports, UTC: "2025-11-29T18:06:53.042Z". Never used to
/// measure or compare.
std::string wall_time_text();

}  // namespace sumcast::runtime
