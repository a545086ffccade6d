#include "lab/cpu_clock.h"

#include <unistd.h>

#include <array>
#include <fstream>
#include <sstream>
#include <string>

namespace sumcast::lab {

Result<Duration> busy_time_from_stat(std::string_view text, long ticks_per_second) {
  std::istringstream in{std::string(text.substr(0, text.find('\n')))};
  std::string label;
  // The line reads: cpu user nice system idle iowait irq softirq steal guest guest_nice. Guest time
  // is part of user time already.
  std::array<int64_t, 7> ticks{};
  in >> label;
  for (int64_t& value : ticks) in >> value;
  if (!in || label != "cpu") {
    return fail(ErrorCode::kSystem, "/proc/stat does not begin with the line of all processors");
  }
  const int64_t busy = ticks[0] + ticks[1] + ticks[2] + ticks[5] + ticks[6];
  return Duration{busy * (std::nano::den / ticks_per_second)};
}

Result<Duration> machine_busy_time() {
  std::ifstream file("/proc/stat");
  std::string line;
  if (!std::getline(file, line)) return fail(ErrorCode::kSystem, "cannot read /proc/stat");
  return busy_time_from_stat(line, ::sysconf(_SC_CLK_TCK));
}

}  // namespace sumcast::lab
