// Points and spans of time. The pure rooms receive an Instant, they never read a clock.
#pragma once

#include <chrono>
#include <compare>
#include <cstdint>

namespace sumcast {

using Duration = std::chrono::nanoseconds;
using namespace std::chrono_literals;

/// A point on the process's monotonic clock. Zero means "unset": clocks start above it.
struct Instant {
  int64_t ns = 0;

  static constexpr Instant never() { return Instant{INT64_MAX}; }
  constexpr bool is_set() const { return ns != 0; }
  constexpr auto operator<=>(const Instant&) const = default;
};

constexpr Instant operator+(Instant at, Duration span) { return Instant{at.ns + span.count()}; }
constexpr Instant operator-(Instant at, Duration span) { return Instant{at.ns - span.count()}; }
constexpr Duration operator-(Instant later, Instant earlier) {
  return Duration{later.ns - earlier.ns};
}

}  // namespace sumcast
