// Quantities as people type them, with their units: "10ms", "25M", "300mbit".
//
// A duration or a rate without a unit is refused rather than guessed: "timeout = 30" has meant
// seconds and milliseconds too often. Each parser reads what its formatter writes, exactly.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/time.h"

namespace sumcast::runtime {

/// "10ms": a number, decimals allowed, and ns, us, ms, s, min or h; "0" alone too. Not negative;
/// fractions of a nanosecond are cut off.
Result<Duration> parse_duration(std::string_view text);
/// The largest unit in which it is a whole number: 1500 ms is "1500ms", 2000 ms "2s".
std::string format_duration(Duration duration);

/// "25M": bytes, with the suffixes K, M, G and T of nccl-tests, which are powers of 1024; "25MiB"
/// and "25MB" mean the same. No decimals.
Result<uint64_t> parse_size(std::string_view text);
/// The largest suffix in which it is a whole number: 26214400 is "25M", 1456 "1456".
std::string format_size(uint64_t bytes);

/// "300mbit": bits a second, with the units bit, kbit, mbit and gbit of tc, which are powers of
/// 1000; case does not matter, "/s" may follow, decimals are allowed.
Result<uint64_t> parse_rate(std::string_view text);
std::string format_rate(uint64_t bits_per_second);

/// A whole number from 0 to 2^64 - 1, digits only.
Result<uint64_t> parse_count(std::string_view text);
/// A number from 0 to 1, such as "0.001".
Result<double> parse_probability(std::string_view text);
/// "true" "yes" "on" "1" and "false" "no" "off" "0", in any case.
Result<bool> parse_flag(std::string_view text);

}  // namespace sumcast::runtime
