// How a key's text becomes a value and back, and which key a mistyped name means.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "runtime/config_keys.h"
#include "runtime/units.h"

namespace sumcast::runtime {
namespace {

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

std::vector<std::string> split_list(std::string_view text) {
  std::vector<std::string> items;
  while (!text.empty()) {
    const std::string_view item = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), item.size() + 1));
    const size_t first = item.find_first_not_of(' ');
    if (first == std::string_view::npos) continue;
    items.emplace_back(item.substr(first, item.find_last_not_of(' ') + 1 - first));
  }
  return items;
}

// Readers of a value by its type; the last argument only chooses among them.
Result<bool> read(const ConfigKey&, std::string_view text, bool) { return parse_flag(text); }

Result<uint64_t> read(const ConfigKey& key, std::string_view text, uint64_t) {
  const Result<uint64_t> value = parse_count(text);
  if (value && (*value < key.least || *value > key.most)) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{} is out of range; choose from {} to {}", text, key.least, key.most));
  }
  return value;
}

// The bounds of 32-bit keys in the table lie within 32 bits (a test looks).
Result<uint32_t> read(const ConfigKey& key, std::string_view text, uint32_t) {
  return read(key, text, uint64_t{}).map([](uint64_t value) {
    return static_cast<uint32_t>(value);
  });
}

Result<double> read(const ConfigKey&, std::string_view text, double) {
  return parse_probability(text);
}

Result<Duration> read(const ConfigKey&, std::string_view text, Duration) {
  return parse_duration(text);
}

Result<std::string> read(const ConfigKey& key, std::string_view text, const std::string&) {
  if (key.check != nullptr) {
    if (const auto checked = key.check(text); !checked) return fail(checked.error());
  }
  return std::string(text);
}

Result<std::vector<std::string>> read(const ConfigKey& key, std::string_view text,
                                      const std::vector<std::string>&) {
  std::vector<std::string> items = split_list(text);
  for (const std::string& item : items) {
    if (const auto checked = read(key, item, std::string()); !checked) return fail(checked.error());
  }
  return items;
}

std::string show(bool value) { return value ? "true" : "false"; }
std::string show(uint64_t value) { return std::to_string(value); }
std::string show(uint32_t value) { return std::to_string(value); }
std::string show(double value) { return fmt::format("{}", value); }
std::string show(Duration value) { return format_duration(value); }
std::string show(const std::string& value) { return value; }
std::string show(const std::vector<std::string>& value) {
  return fmt::format("{}", fmt::join(value, ","));
}

}  // namespace

std::string_view nearest_config_key(std::string_view name) {
  // A forgotten or wrong table is the commonest mistake, so the last part may decide alone.
  const std::string_view last = name.substr(name.rfind('.') + 1);
  std::string_view best;
  size_t best_distance = std::max<size_t>(2, name.size() / 3) + 1;
  for (const ConfigKey& key : config_keys()) {
    const bool same_last = key.name.substr(key.name.rfind('.') + 1) == last;
    const size_t distance = std::min(edit_distance(name, key.name), same_last ? size_t{1} : 99);
    if (distance < best_distance) {
      best = key.name;
      best_distance = distance;
    }
  }
  return best;
}

std::string_view type_name(const ConfigKey& key) {
  // In the order of SettingField's alternatives.
  static constexpr std::array<std::string_view, 7> kNames = {"switch",   "count", "count", "share",
                                                             "duration", "text",  "list"};
  return kNames[key.field.index()];
}

Result<void> set_from_text(const ConfigKey& key, Settings& settings, std::string_view text) {
  return std::visit(
      [&](auto member) -> Result<void> {
        auto value = read(key, text, settings.*member);
        if (!value) return fail(std::move(value.error()));
        settings.*member = *std::move(value);
        return {};
      },
      key.field);
}

std::string text_of(const ConfigKey& key, const Settings& settings) {
  return std::visit([&](auto member) { return show(settings.*member); }, key.field);
}

}  // namespace sumcast::runtime
