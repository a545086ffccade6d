// Figures as people read them: at most three significant digits, a decimal prefix, a unit.
//
// "812 us", "1.3 s", "26.2 MB", "300 Mbit/s", "2.1x". Prefixes are powers of 1000 throughout;
// ASCII only, so that logs and pipes keep them intact.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/time.h"

namespace sumcast::report {

/// `value` with a prefix from n to T chosen so that the number lies in [1, 1000): "26.2 M" + unit.
std::string format_scaled(double value, std::string_view unit);

/// "640 ns", "812 us", "45 ms", "1.3 s"; from 100 s on "2 min 5 s", from an hour on "3 h 20 min".
std::string format_duration(Duration span);

/// "0 B", "999 B", "26.2 MB": decimal prefixes, as links and disks are sold.
std::string format_bytes(double bytes);

/// "300 Mbit/s", "25 Gbit/s".
std::string format_bit_rate(double bits_per_second);

/// "2.1x", "1.0x", "0.96x", "13x": two decimals below 1, none from 10 on.
std::string format_ratio(double ratio);

/// A share of 1 as "88.2 %".
std::string format_percent(double share);

/// "60,000".
std::string format_count(uint64_t count);

}  // namespace sumcast::report
