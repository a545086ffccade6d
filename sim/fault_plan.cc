#include "sim/fault_plan.h"

namespace sumcast::sim {

Duration FaultInjector::up_to(Duration most) {
  if (most.count() <= 0) return Duration{0};
  return Duration(static_cast<int64_t>(prng_.below(static_cast<uint64_t>(most.count()) + 1)));
}

Fate FaultInjector::next(Instant now) {
  Fate fate;
  for (const FaultPlan::Outage& outage : plan_.outages) {
    if (now >= outage.from && now < outage.until) fate.lost = true;
  }
  if (plan_.burst_begin > 0) {
    if (in_burst_) {
      fate.lost = true;
      in_burst_ = !prng_.chance(plan_.burst_end);
    } else {
      in_burst_ = prng_.chance(plan_.burst_begin);
    }
  }
  if (plan_.loss > 0 && prng_.chance(plan_.loss)) fate.lost = true;
  fate.late = up_to(plan_.jitter_max);
  if (plan_.reordering > 0 && prng_.chance(plan_.reordering)) fate.late += up_to(plan_.held_max);
  if (plan_.duplication > 0 && prng_.chance(plan_.duplication)) {
    fate.twice = true;
    fate.twin_late = up_to(plan_.held_max + plan_.jitter_max);
  }
  fate.other_life = plan_.other_life > 0 && prng_.chance(plan_.other_life);
  return fate;
}

}  // namespace sumcast::sim
