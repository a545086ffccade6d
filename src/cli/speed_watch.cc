#include "cli/speed_watch.h"

#include <algorithm>

#include "base/assert.h"

namespace sumcast::cli {

SpeedWatch::SpeedWatch(double reference_s, NowFn now)
    : reference_s_(reference_s), now_(std::move(now)) {
  SUMCAST_ASSERT(reference_s > 0);
}

double SpeedWatch::undisturbed(std::vector<double> times) {
  SUMCAST_ASSERT(!times.empty());
  const auto quartile = times.begin() + static_cast<ptrdiff_t>(times.size() / 4);
  std::nth_element(times.begin(), quartile, times.end());
  return *quartile;
}

bool SpeedWatch::may_wait(Instant begun) const {
  const Duration now = now_() - begun;
  return now < kPatience && waited_ + now < kCredit + measured_;
}

}  // namespace sumcast::cli
