// Writes what a user reads about configuration, from the table that the programs obey.
#include <fmt/format.h>

#include <iterator>

#include "runtime/config.h"
#include "runtime/config_keys.h"

namespace sumcast::runtime {
namespace {

constexpr size_t kColumnsMax = 96;

std::string_view table_of(const ConfigKey& key) {
  const size_t dot = key.name.find('.');
  return dot == std::string_view::npos ? std::string_view() : key.name.substr(0, dot);
}

std::string_view name_in_table(const ConfigKey& key) {
  return key.name.substr(key.name.find('.') + 1);
}

std::string_view heading(std::string_view table) {
  if (table.empty()) return "Workers";
  if (table == "heartbeat") return "Heartbeats, `[heartbeat]`";
  if (table == "daemon") return "The aggregator daemon, `[daemon]`";
  if (table == "debug") return "Log, `[debug]`";
  return "Injected faults, `[fault]`";
}

std::string type_and_unit(const ConfigKey& key) {
  std::string text(type_name(key));
  if (!key.unit.empty()) text += fmt::format(", {}", key.unit);
  return text;
}

std::string variables(const ConfigKey& key, std::string_view quote) {
  std::string text = fmt::format("{}{}{}", quote, key.env, quote);
  for (const char* name : key.fallback_env) {
    if (name != nullptr) text += fmt::format(", else {}{}{}", quote, name, quote);
  }
  return text;
}

/// A value as TOML writes it.
std::string toml_value(const ConfigKey& key, const std::string& text) {
  const std::string_view type = type_name(key);
  if (type == "list") return text.empty() ? "[]" : fmt::format("[\"{}\"]", text);
  if (type == "text" || type == "duration") return fmt::format("\"{}\"", text);
  return text;
}

/// Appends `text` as comment lines of bounded length.
void append_comment(std::string& out, std::string_view text) {
  std::string line = "#";
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(text.size(), word.size() + 1));
    if (line.size() + 1 + word.size() > kColumnsMax) {
      out += line + "\n";
      line = "#";
    }
    line += ' ';
    line += word;
  }
  out += line + "\n";
}

}  // namespace

std::string config_markdown() {
  std::string out =
      "# Configuration\n\n"
      "This page is generated from `src/runtime/config_keys.cc`; change it there. A file to start\n"
      "from, all commented out, is [sumcast.toml](sumcast.toml).\n\n"
      "A later source wins over an earlier one: defaults, the file `sumcast.toml` (named by\n"
      "`--config` or `SUMCAST_CONFIG`), environment variables, flags. An empty variable counts as\n"
      "unset. An unknown key or a value that does not fit is an error, and all errors are "
      "reported\n"
      "at once. A duration carries its unit (`ns us ms s min h`); a share is a number from 0 to "
      "1;\n"
      "a list is an array of texts in the file and separated by commas in a variable.\n";
  const Settings defaults;
  std::string_view table = "none yet";
  for (const ConfigKey& key : config_keys()) {
    if (table_of(key) != table) {
      table = table_of(key);
      fmt::format_to(std::back_inserter(out),
                     "\n## {}\n\n| Key | Variable | Type | Default | Meaning |\n|---|---|---|---|"
                     "---|\n",
                     heading(table));
    }
    fmt::format_to(std::back_inserter(out), "| `{}` | {} | {} | `{}` | {} |\n", key.name,
                   variables(key, "`"), type_and_unit(key), toml_value(key, text_of(key, defaults)),
                   key.help);
  }
  return out;
}

std::string config_sample_toml() {
  std::string out;
  append_comment(out,
                 "Configuration of sumcast. Every key is shown with its default; remove the # "
                 "before a key to change it. Environment variables win over this file, flags over "
                 "both.");
  const Settings defaults;
  std::string_view table;
  for (const ConfigKey& key : config_keys()) {
    if (table_of(key) != table) {
      table = table_of(key);
      fmt::format_to(std::back_inserter(out), "\n[{}]\n", table);
    }
    out += '\n';
    append_comment(out,
                   fmt::format("{} ({}; {})", key.help, type_and_unit(key), variables(key, "")));
    fmt::format_to(std::back_inserter(out), "#{} = {}\n", name_in_table(key),
                   toml_value(key, text_of(key, defaults)));
  }
  return out;
}

}  // namespace sumcast::runtime
