// Reads sumcast.toml: walks the tree that toml++ makes and hands each value, as text, to the
// table of keys. The only file that knows toml++, which takes long to compile.
#define TOML_EXCEPTIONS 0
#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>

#include "runtime/config.h"
#include "runtime/config_keys.h"

namespace sumcast::runtime {
namespace {

struct Placed {
  uint32_t line;
  Error error;
};

/// Text as `set_from_text` reads it; nothing for a kind of value that no key takes.
std::optional<std::string> scalar_text(const toml::node& node) {
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* number = node.as_integer()) return std::to_string(number->get());
  if (const auto* number = node.as_floating_point()) return fmt::format("{}", number->get());
  if (const auto* flag = node.as_boolean()) return std::string(flag->get() ? "true" : "false");
  return std::nullopt;
}

std::optional<std::string> value_text(const ConfigKey& key, const toml::node& node) {
  const bool is_list = type_name(key) == "list";
  if (is_list || type_name(key) == "text") {
    if (const auto* text = node.as_string()) return text->get();
  } else {
    return scalar_text(node);
  }
  const toml::array* items = is_list ? node.as_array() : nullptr;
  if (items == nullptr) return std::nullopt;
  std::string joined_items;
  for (const toml::node& item : *items) {
    const auto* text = item.as_string();
    if (text == nullptr) return std::nullopt;
    if (!joined_items.empty()) joined_items += ',';
    joined_items += text->get();
  }
  return joined_items;
}

class Walker {
 public:
  explicit Walker(Settings& settings) : settings_(settings) {}

  void walk(const toml::table& table, const std::string& prefix) {
    for (const auto& [key, node] : table) {
      visit(prefix + std::string(key.str()), key.source().begin.line, node);
    }
  }

  /// In the order of the file; toml++ sorts by name.
  std::vector<Placed> take() {
    std::stable_sort(problems_.begin(), problems_.end(),
                     [](const Placed& a, const Placed& b) { return a.line < b.line; });
    return std::move(problems_);
  }

 private:
  static bool is_known_table(const std::string& name) {
    const auto keys = config_keys();
    return std::any_of(keys.begin(), keys.end(),
                       [&name](const ConfigKey& key) { return key.name.starts_with(name + "."); });
  }

  void visit(const std::string& name, uint32_t line, const toml::node& node) {
    if (node.is_table() && is_known_table(name)) return walk(*node.as_table(), name + ".");
    const ConfigKey* key = find_config_key(name);
    Result<void> set;
    if (key == nullptr && node.is_table()) {
      set = fail(ErrorCode::kInvalidArgument,
                 fmt::format("unknown table '{}'; docs/config.md lists all keys", name));
    } else if (key == nullptr) {
      set = set_setting(settings_, name, "");  // Words the error, with the nearest key.
    } else if (const auto text = value_text(*key, node)) {
      set = set_setting(settings_, name, *text);
    } else {
      set = fail(ErrorCode::kInvalidArgument,
                 fmt::format("{} takes a {}, quoted; it cannot be read from this kind of value",
                             name, type_name(*key)));
    }
    if (!set) problems_.push_back({line, std::move(set.error())});
  }

  Settings& settings_;
  std::vector<Placed> problems_;
};

}  // namespace

Problems apply_toml(Settings& settings, std::string_view text, const std::string& file) {
  const toml::parse_result parsed = toml::parse(text, file);
  if (!parsed) {
    const toml::parse_error& error = parsed.error();
    return {Error{ErrorCode::kInvalidArgument,
                  fmt::format("{}:{}: {}", file, error.source().begin.line, error.description())}};
  }
  Walker walker(settings);
  walker.walk(parsed.table(), "");
  Problems problems;
  for (const Placed& problem : walker.take()) {
    problems.push_back(problem.error.within(fmt::format("{}:{}", file, problem.line)));
  }
  return problems;
}

}  // namespace sumcast::runtime
