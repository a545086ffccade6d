// Benches tell all ranks one start, a moment ahead: the monotonic clock is one for a machine.
#pragma once

#include <time.h>

#include <cerrno>

#include "base/time.h"

namespace sumcast::cli {

/// Returns at `start`, or at once if that has passed.
inline void sleep_until(Instant start) {
  constexpr int64_t kSecond = 1'000'000'000;
  const timespec at{start.ns / kSecond, start.ns % kSecond};
  while (::clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, nullptr) == EINTR) {
  }
}

}  // namespace sumcast::cli
