#include "runtime/clock.h"

#include <fmt/format.h>

#include <ctime>

#include "base/assert.h"

namespace sumcast::runtime {

Instant monotonic_now() {
  timespec now{};
  const int read = ::clock_gettime(CLOCK_MONOTONIC, &now);
  SUMCAST_ASSERT(read == 0);
  return Instant{int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec};
}

std::string wall_time_text() {
  timespec now{};
  const int read = ::clock_gettime(CLOCK_REALTIME, &now);
  SUMCAST_ASSERT(read == 0);
  tm utc{};
  ::gmtime_r(&now.tv_sec, &utc);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", utc.tm_year + 1900,
                     utc.tm_mon + 1, utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec,
                     now.tv_nsec / 1'000'000);
}

}  // namespace sumcast::runtime
