// How much processor time the whole machine has spent, whoever spent it.
//
// A transport's cost is spread over its processes, the daemon and the kernel's softirq work, which
// is charged to nobody in particular. So the bench reads /proc/stat instead of asking processes.
#pragma once

#include <string_view>

#include "base/result.h"
#include "base/time.h"

namespace sumcast::lab {

/// Busy time (user, nice, system, irq, softirq) summed over all processors since boot, in steps of
/// the kernel's tick (10 ms). Differences of two readings are what is meant to be used.
Result<Duration> machine_busy_time();

/// Reads that sum out of the text of /proc/stat. `ticks_per_second` > 0.
Result<Duration> busy_time_from_stat(std::string_view text, long ticks_per_second);

/// Busy time since construction. Reports zero if /proc/stat cannot be read.
class CpuClock {
 public:
  CpuClock() : start_(machine_busy_time().value_or(Duration{0})) {}
  Duration busy() const { return machine_busy_time().value_or(start_) - start_; }

 private:
  Duration start_;
};

}  // namespace sumcast::lab
