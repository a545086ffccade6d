#include "report/units.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace sumcast::report {
namespace {

/// `value` rounded to `digits` significant digits, without an exponent or trailing zeros.
std::string significant(double value, int digits) {
  if (!std::isfinite(value)) return std::isnan(value) ? "n/a" : value > 0 ? "inf" : "-inf";
  if (value == 0.0) return "0";
  const int before_point = static_cast<int>(std::floor(std::log10(std::abs(value)))) + 1;
  std::string text = fmt::format("{:.{}f}", value, std::max(0, digits - before_point));
  if (text.find('.') != std::string::npos) {
    text.erase(text.find_last_not_of('0') + 1);
    if (text.back() == '.') text.pop_back();
  }
  return text;
}

}  // namespace

std::string format_scaled(double value, std::string_view unit) {
  constexpr std::array<std::string_view, 8> kPrefixes = {"n", "u", "m", "", "k", "M", "G", "T"};
  size_t prefix = 3;
  if (!std::isfinite(value)) return significant(value, 3);
  // 999.5 would be printed as 1000: the next prefix takes over where rounding does.
  while (std::abs(value) >= 999.5 && prefix + 1 < kPrefixes.size()) value /= 1000.0, ++prefix;
  while (value != 0.0 && std::abs(value) < 0.9995 && prefix > 0) value *= 1000.0, --prefix;
  return fmt::format("{} {}{}", significant(value, 3), kPrefixes[prefix], unit);
}

std::string format_duration(Duration span) {
  const double seconds = std::chrono::duration<double>(span).count();
  if (std::abs(seconds) < 99.95) return format_scaled(seconds, "s");
  const auto whole = static_cast<int64_t>(std::llround(seconds));
  if (whole < 3600) return fmt::format("{} min {} s", whole / 60, whole % 60);
  return fmt::format("{} h {} min", whole / 3600, whole % 3600 / 60);
}

std::string format_bytes(double bytes) {
  if (std::abs(bytes) < 999.5) return significant(bytes, 3) + " B";
  return format_scaled(bytes, "B");
}

std::string format_bit_rate(double bits_per_second) {
  if (bits_per_second == 0.0) return "0 bit/s";
  return format_scaled(bits_per_second, "bit/s");
}

std::string format_ratio(double ratio) {
  if (!std::isfinite(ratio)) return significant(ratio, 2);
  // The thresholds are where rounding reaches the next power of ten.
  const int decimals = ratio >= 9.95 ? 0 : ratio >= 0.995 ? 1 : 2;
  return fmt::format("{:.{}f}x", ratio, decimals);
}

std::string format_percent(double share) { return fmt::format("{:.1f} %", 100.0 * share); }

std::string format_count(uint64_t count) {
  const std::string digits = std::to_string(count);
  std::string text;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

}  // namespace sumcast::report
