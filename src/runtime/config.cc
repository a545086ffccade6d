#include "runtime/config.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/assert.h"
#include "runtime/config_keys.h"
#include "runtime/units.h"

namespace sumcast::runtime {
namespace {

Result<std::string> read_file(const std::string& path) {
  // A stream opens a directory without complaint and finds it empty.
  std::error_code ignored;
  const bool is_directory = std::filesystem::is_directory(path, ignored);
  errno = 0;
  std::ifstream file(path);
  if (is_directory || !file) {
    const int reason = is_directory ? EISDIR : errno;
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("cannot read configuration file {}: {}", path, std::strerror(reason)));
  }
  return std::string(std::istreambuf_iterator<char>(file), {});
}

/// The variable that decides a key, and its value in the key's own grammar.
std::optional<std::pair<const char*, std::string>> find_variable(const ConfigKey& key,
                                                                 const EnvironmentLookup& lookup) {
  if (auto value = lookup(key.env)) return std::pair(key.env, *std::move(value));
  for (const char* name : key.fallback_env) {
    if (name == nullptr) break;
    auto value = lookup(name);
    if (!value) continue;
    // Gloo takes plain names where NCCL takes prefixes: its eth1 must not match eth10.
    const bool exact_names = std::string_view(name) == "GLOO_SOCKET_IFNAME";
    return std::pair(name, exact_names ? "=" + *value : *value);
  }
  return std::nullopt;
}

}  // namespace

Result<void> set_setting(Settings& settings, std::string_view name, std::string_view text) {
  const ConfigKey* key = find_config_key(name);
  if (key == nullptr) {
    const std::string_view nearest = nearest_config_key(name);
    return fail(ErrorCode::kInvalidArgument,
                nearest.empty()
                    ? fmt::format("unknown key '{}'; docs/config.md lists all", name)
                    : fmt::format("unknown key '{}'; the nearest is '{}'", name, nearest));
  }
  const Result<void> set = set_from_text(*key, settings, text);
  if (!set) return fail(set.error().within(std::string(name)));
  return {};
}

Problems apply_environment(Settings& settings, const EnvironmentLookup& lookup) {
  Problems problems;
  for (const ConfigKey& key : config_keys()) {
    const auto variable = find_variable(key, lookup);
    if (!variable) continue;
    const Result<void> set = set_from_text(key, settings, variable->second);
    if (!set) problems.push_back(set.error().within(variable->first));
  }
  return problems;
}

tl::expected<Settings, Problems> load_settings(const std::optional<std::string>& config_path,
                                               const EnvironmentLookup& lookup) {
  Settings settings;
  Problems problems;
  const std::optional<std::string> path = config_path ? config_path : lookup("SUMCAST_CONFIG");
  if (path) {
    const Result<std::string> text = read_file(*path);
    if (text) {
      problems = apply_toml(settings, *text, *path);
    } else {
      problems.push_back(text.error());
    }
  }
  for (Error& problem : apply_environment(settings, lookup)) {
    problems.push_back(std::move(problem));
  }
  if (!problems.empty()) return tl::unexpected(std::move(problems));
  return settings;
}

Problems validate(const Settings& settings) {
  Problems problems;
  const auto require = [&problems](bool holds, std::string what) {
    if (!holds) problems.push_back({ErrorCode::kInvalidArgument, std::move(what)});
  };
  require(settings.heartbeat_interval > Duration{0}, "heartbeat.interval must be above 0");
  require(settings.timeout > Duration{0}, "timeout must be above 0; no wait is without a limit");
  require(settings.heartbeat_death / 2 >= settings.heartbeat_interval,
          fmt::format("heartbeat.death ({}) must be at least twice heartbeat.interval ({}), or one "
                      "lost heartbeat kills a member",
                      format_duration(settings.heartbeat_death),
                      format_duration(settings.heartbeat_interval)));
  require(
      !settings.insecure || settings.key_file.empty(),
      fmt::format("insecure is set and key_file names {}; drop one of the two", settings.key_file));
  return problems;
}

Error joined(const Problems& problems) {
  SUMCAST_ASSERT(!problems.empty());
  Error all = problems.front();
  for (size_t i = 1; i < problems.size(); ++i) all.what += "\n" + problems[i].what;
  return all;
}

LogOptions log_options(const Settings& settings) {
  return {settings.debug_level, settings.debug_subsys, settings.debug_file};
}

}  // namespace sumcast::runtime
