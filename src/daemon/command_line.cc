#include "daemon/command_line.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <sstream>
#include <thread>
#include <vector>

#include "auth/key_file.h"
#include "manual/manual_page.h"
#include "runtime/config_keys.h"

namespace sumcast::daemon {
namespace {

/// A flag that sets a key of the configuration.
struct Flag {
  const char* name;
  const char* key;
  const char* value;  ///< How --help calls its value.
  const char* help;
};
constexpr std::array<Flag, 10> kFlags = {{
    {"--listen", "daemon.listen", "ADDR:PORT",
     "Take workers here: TCP for control, UDP for data; further threads take the UDP ports above"},
    {"--http", "daemon.http", "ADDR:PORT", "Status and metrics here; none: nowhere"},
    {"--key-file", "key_file", "FILE", "The job's key, made by 'sumcast keygen FILE'"},
    {"--threads", "daemon.threads", "N", "Threads that aggregate; 0: one per CPU"},
    {"--slots", "daemon.slots_per_thread", "N", "Slots of a job's pool in each thread"},
    {"--loss", "fault.loss", "P", "Rehearse: drop this share of the datagrams received"},
    {"--dup", "fault.duplicate", "P", "Rehearse: take this share twice"},
    {"--reorder", "fault.reorder", "P", "Rehearse: have this share overtaken"},
    {"--delay", "fault.delay", "TIME", "Rehearse: hold each for so long, such as 2ms"},
    {"--seed", "fault.seed", "N", "Rehearse: the same seed, the same faults"},
}};

ExitNow usage_error(const std::string& what) {
  return {kExitUsage, fmt::format("sumcastd: {}\n", what)};
}

ExitNow problems_text(const runtime::Problems& problems) {
  std::string text;
  for (const Error& problem : problems) text += fmt::format("sumcastd: {}\n", problem.what);
  return {kExitUsage, std::move(text)};
}

/// The configuration with the flags on top.
struct Words {
  std::optional<std::string> config;
  std::array<std::optional<std::string>, kFlags.size()> flags;
  bool insecure = false;
  bool json_ready = false;
};

tl::expected<runtime::Settings, runtime::Problems> settings_of(
    const Words& words, const runtime::EnvironmentLookup& lookup) {
  auto settings = runtime::load_settings(words.config, lookup);
  if (!settings) return settings;
  runtime::Problems problems;
  for (size_t i = 0; i < kFlags.size(); ++i) {
    if (!words.flags[i]) continue;
    const Flag& flag = kFlags[i];
    const bool is_none = std::string_view(flag.name) == "--http" && *words.flags[i] == "none";
    const auto set = runtime::set_from_text(*runtime::find_config_key(flag.key), *settings,
                                            is_none ? std::string() : *words.flags[i]);
    if (!set) problems.push_back(set.error().within(flag.name));
    // A flag for one of the two overrules what file or environment said about the other.
    if (set && std::string_view(flag.key) == "key_file") settings->insecure = false;
  }
  if (words.insecure) {
    settings->insecure = true;
    settings->key_file.clear();
  }
  if (problems.empty()) problems = runtime::validate(*settings);
  if (!problems.empty()) return tl::unexpected(std::move(problems));
  return settings;
}

Result<void> fill_addresses(const runtime::Settings& settings, DaemonOptions& options) {
  auto listen = net::parse_endpoint(settings.daemon_listen);
  if (!listen) return fail(listen.error().within("--listen"));
  options.listen = *listen;
  if (options.listen.port() != 0 && options.listen.port() + options.threads - 1 > 65535) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("--listen: {} threads need the UDP ports from {} up, beyond 65535",
                            options.threads, options.listen.port()));
  }
  if (settings.daemon_http.empty()) return {};
  auto http = net::parse_endpoint(settings.daemon_http);
  if (!http) return fail(http.error().within("--http"));
  options.http = *http;
  return {};
}

Result<void> fill_key(const runtime::Settings& settings, DaemonOptions& options) {
  if (settings.insecure) return {};
  if (settings.key_file.empty()) {
    return fail(ErrorCode::kInvalidArgument,
                "no key; give --key-file F (sumcast makes one: sumcast keygen F) or --insecure");
  }
  auto key = auth::read_key_file(settings.key_file);
  if (!key) return fail(key.error());
  options.key = *key;
  return {};
}

Result<DaemonOptions> options_of(const runtime::Settings& settings) {
  DaemonOptions options;
  options.threads = settings.daemon_threads != 0
                        ? settings.daemon_threads
                        : std::max(1u, std::thread::hardware_concurrency());
  options.slots_per_job = settings.daemon_slots_per_thread;
  options.heartbeat = settings.heartbeat_interval;
  options.death = settings.heartbeat_death;
  options.spin = settings.spin;
  options.multicast = settings.multicast;
  options.faults.loss = settings.fault_loss;
  options.faults.duplicate = settings.fault_duplicate;
  options.faults.reorder = settings.fault_reorder;
  options.faults.delay = settings.fault_delay;
  options.faults.seed = settings.fault_seed;
  if (auto filled = fill_addresses(settings, options); !filled) return fail(filled.error());
  if (auto filled = fill_key(settings, options); !filled) return fail(filled.error());
  return options;
}

manual::PageFacts page_facts() {
  return {8, SUMCAST_VERSION,
          "sumcastd is one process without state on disk. It takes the workers of many jobs, adds "
          "what they send and returns one sum to all. It needs no root, one TCP and one UDP port, "
          "and a UDP port above it for each further thread.\n\n"
          "Workers find it by SUMCAST_AGGREGATOR=host:port and hold the same key file. Without it "
          "they add among themselves.\n\n"
          "SIGTERM, SIGINT and SIGHUP end it within a second; its workers are told first. Settings "
          "are read at start; there is nothing to reload.",
          "0: after a signal.\n\n"
          "1: it cannot serve; a port that is taken names the process that has it.\n\n"
          "2: flags or a configuration that make no sense, a key file that cannot be read.",
          "sumcast(1), systemd.service(5). docs/operations.md of the source tree has a unit, a "
          "container and what to do when it is slow."};
}

}  // namespace

std::variant<CommandLine, ExitNow> parse_command_line(int argc, const char* const* argv,
                                                      const runtime::EnvironmentLookup& lookup) {
  CLI::App app("Sumcast's aggregator: adds the gradients of a job's workers and returns the sum.",
               "sumcastd");
  app.footer(
      "Every flag has a key in sumcast.toml and a SUMCAST_* variable: see docs/config.md.\n"
      "Examples:\n"
      "  sumcastd --listen 0.0.0.0:4700 --key-file job.key\n"
      "  sumcastd --config /etc/sumcast/sumcast.toml --threads 2\n"
      "  sumcastd --listen 127.0.0.1:4700 --http none --insecure");
  Words words;
  app.set_version_flag("--version", "sumcastd " SUMCAST_VERSION);
  app.add_option("--config", words.config, "Read this configuration file")->type_name("FILE");
  CLI::Option* key_file = nullptr;
  for (size_t i = 0; i < kFlags.size(); ++i) {
    CLI::Option* option = app.add_option(kFlags[i].name, words.flags[i], kFlags[i].help);
    option->type_name(kFlags[i].value);
    if (std::string_view(kFlags[i].key) == "key_file") key_file = option;
  }
  app.add_flag("--insecure", words.insecure,
               "No keys and no tags: whoever reaches the port can change sums")
      ->excludes(key_file);
  bool wants_page = false, wants_completion = false;
  app.add_flag("--manual-page", wants_page, "Write sumcastd(8)")->group("");
  app.add_flag("--bash-completion", wants_completion, "Write completion for bash")->group("");
  app.add_flag("--json-ready", words.json_ready, "Print one line of JSON when serving");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::ostringstream out, problem;
    const int code = app.exit(error, out, problem);
    if (code == 0) return ExitNow{0, out.str()};
    return usage_error(fmt::format("{}; see sumcastd --help", error.what()));
  }
  if (wants_page) return ExitNow{0, manual::manual_page(app, page_facts())};
  if (wants_completion) return ExitNow{0, manual::bash_completion(app)};
  const auto settings = settings_of(words, lookup);
  if (!settings) return problems_text(settings.error());
  auto options = options_of(*settings);
  if (!options) return usage_error(options.error().what);
  return CommandLine{std::move(*options), runtime::log_options(*settings), words.json_ready};
}

}  // namespace sumcast::daemon
