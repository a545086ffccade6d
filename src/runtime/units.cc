#include "runtime/units.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <span>

namespace sumcast::runtime {
namespace {

struct Unit {
  std::string_view name;
  uint64_t scale;
};

// Ascending; where several names share a scale, formatters write the first.
constexpr std::array<Unit, 6> kDurationUnits = {{{"ns", 1},
                                                 {"us", 1'000},
                                                 {"ms", 1'000'000},
                                                 {"s", 1'000'000'000},
                                                 {"min", 60'000'000'000},
                                                 {"h", 3'600'000'000'000}}};
constexpr std::array<Unit, 14> kSizeUnits = {{{"", 1},
                                              {"B", 1},
                                              {"K", uint64_t{1} << 10},
                                              {"KB", uint64_t{1} << 10},
                                              {"KiB", uint64_t{1} << 10},
                                              {"M", uint64_t{1} << 20},
                                              {"MB", uint64_t{1} << 20},
                                              {"MiB", uint64_t{1} << 20},
                                              {"G", uint64_t{1} << 30},
                                              {"GB", uint64_t{1} << 30},
                                              {"GiB", uint64_t{1} << 30},
                                              {"T", uint64_t{1} << 40},
                                              {"TB", uint64_t{1} << 40},
                                              {"TiB", uint64_t{1} << 40}}};
constexpr std::array<Unit, 4> kRateUnits = {
    {{"bit", 1}, {"kbit", 1'000}, {"mbit", 1'000'000}, {"gbit", 1'000'000'000}}};

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool same_but_for_case(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return lower(x) == lower(y); });
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// Takes leading digits off `text`.
std::string_view take_digits(std::string_view& text) {
  const auto end = std::find_if_not(text.begin(), text.end(), is_digit);
  const std::string_view digits = text.substr(0, static_cast<size_t>(end - text.begin()));
  text.remove_prefix(digits.size());
  return digits;
}

std::optional<uint64_t> whole_number(std::string_view digits) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return value;
}

tl::unexpected<Error> not_a(std::string_view what, std::string_view text,
                            std::string_view expected) {
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("'{}' is not a {}; write {}", text, what, expected));
}

constexpr size_t kFractionDigitsMax = 12;

struct Quantity {
  uint64_t whole = 0;
  std::string_view fraction;  // Digits after the point; may be empty.
  std::string_view unit;
};

/// Splits "1.5 ms" into its parts; nothing if it does not begin with a number.
std::optional<Quantity> split(std::string_view text) {
  Quantity quantity;
  const std::string_view digits = take_digits(text);
  const std::optional<uint64_t> whole = whole_number(digits);
  if (!whole) return std::nullopt;
  quantity.whole = *whole;
  if (!text.empty() && text.front() == '.') {
    text.remove_prefix(1);
    quantity.fraction = take_digits(text);
    if (quantity.fraction.empty()) return std::nullopt;
  }
  if (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  quantity.unit = text;
  return quantity;
}

/// whole.fraction * scale, cut off below one; nothing if it exceeds `limit`. Exact: no doubles.
std::optional<uint64_t> scaled(const Quantity& quantity, uint64_t scale, uint64_t limit) {
  unsigned __int128 value = static_cast<unsigned __int128>(quantity.whole) * scale;
  if (!quantity.fraction.empty()) {
    // Scales stay below 10^13, so digits after the twelfth cannot be seen but in the last unit.
    const std::string_view digits = quantity.fraction.substr(0, kFractionDigitsMax);
    uint64_t power = 1;
    for (size_t i = 0; i < digits.size(); ++i) power *= 10;
    value += static_cast<unsigned __int128>(*whole_number(digits)) * scale / power;
  }
  if (value > limit) return std::nullopt;
  return static_cast<uint64_t>(value);
}

const Unit* find_unit(std::span<const Unit> units, std::string_view name) {
  const auto found = std::find_if(units.begin(), units.end(), [name](const Unit& unit) {
    return same_but_for_case(unit.name, name);
  });
  return found == units.end() ? nullptr : &*found;
}

std::string format_with(std::span<const Unit> units, uint64_t value) {
  const Unit* best = &units.front();
  for (const Unit& unit : units) {
    if (value != 0 && unit.scale > best->scale && value % unit.scale == 0) best = &unit;
  }
  return fmt::format("{}{}", value / best->scale, best->name);
}

}  // namespace

Result<Duration> parse_duration(std::string_view text) {
  constexpr std::string_view kExpected = "a number with ns, us, ms, s, min or h, such as 250ms";
  if (text == "0") return Duration{0};
  const std::optional<Quantity> quantity = split(text);
  if (!quantity) return not_a("duration", text, kExpected);
  const Unit* unit = find_unit(kDurationUnits, quantity->unit);
  if (unit == nullptr) return not_a("duration", text, kExpected);
  const auto value = scaled(*quantity, unit->scale, INT64_MAX);
  if (!value) return not_a("duration that fits", text, "less than 292 years");
  return Duration{static_cast<int64_t>(*value)};
}

std::string format_duration(Duration duration) {
  if (duration.count() < 0) return fmt::format("{}ns", duration.count());
  return format_with(kDurationUnits, static_cast<uint64_t>(duration.count()));
}

Result<uint64_t> parse_size(std::string_view text) {
  constexpr std::string_view kExpected = "a whole number of bytes with K, M, G or T, such as 25M";
  const std::optional<Quantity> quantity = split(text);
  if (!quantity || !quantity->fraction.empty()) return not_a("size", text, kExpected);
  const Unit* unit = find_unit(kSizeUnits, quantity->unit);
  if (unit == nullptr) return not_a("size", text, kExpected);
  const auto value = scaled(*quantity, unit->scale, UINT64_MAX);
  if (!value) return not_a("size that fits", text, "less than 16777216T");
  return *value;
}

std::string format_size(uint64_t bytes) { return format_with(kSizeUnits, bytes); }

Result<uint64_t> parse_rate(std::string_view text) {
  constexpr std::string_view kExpected = "a number with bit, kbit, mbit or gbit, such as 300mbit";
  const std::optional<Quantity> quantity = split(text);
  if (!quantity) return not_a("rate", text, kExpected);
  std::string_view name = quantity->unit;
  if (name.size() > 2 && name.substr(name.size() - 2) == "/s") name.remove_suffix(2);
  const Unit* unit = find_unit(kRateUnits, name);
  if (unit == nullptr) return not_a("rate", text, kExpected);
  const auto value = scaled(*quantity, unit->scale, UINT64_MAX);
  if (!value) return not_a("rate that fits", text, "less than 18446744073gbit");
  return *value;
}

std::string format_rate(uint64_t bits_per_second) {
  return format_with(kRateUnits, bits_per_second);
}

Result<uint64_t> parse_count(std::string_view text) {
  const std::optional<uint64_t> value = whole_number(text);
  if (!value) return not_a("whole number", text, "digits only, at most 18446744073709551615");
  return *value;
}

Result<double> parse_probability(std::string_view text) {
  constexpr std::string_view kExpected = "a number from 0 to 1, such as 0.001";
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    return not_a("probability", text, kExpected);
  }
  // Written so that NaN fails too.
  if (!(value >= 0.0 && value <= 1.0)) return not_a("probability", text, kExpected);
  return value;
}

Result<bool> parse_flag(std::string_view text) {
  for (const std::string_view name : {"true", "yes", "on", "1"}) {
    if (same_but_for_case(text, name)) return true;
  }
  for (const std::string_view name : {"false", "no", "off", "0"}) {
    if (same_but_for_case(text, name)) return false;
  }
  return not_a("switch", text, "true or false");
}

}  // namespace sumcast::runtime
