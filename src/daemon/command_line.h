// What sumcastd was asked to do: flags over environment over file over defaults, checked as a whole
// before anything is opened.
//
// It only reads words; whether a port is free or a key right is for those who use them.
#pragma once

#include <optional>
#include <string>
#include <variant>

#include "auth/secret.h"
#include "base/result.h"
#include "net/address.h"
#include "net/fault.h"
#include "runtime/config.h"
#include "runtime/environment.h"

namespace sumcast::daemon {

/// Everything that Daemon::start needs to know.
struct DaemonOptions {
  net::Endpoint listen;               ///< TCP for control, UDP for the first thread.
  std::optional<net::Endpoint> http;  ///< None: no status pages.
  std::optional<auth::Key> key;       ///< None: insecure.
  uint32_t threads = 1;
  uint32_t slots_per_job = 1024;  ///< In each thread's pool.
  Duration heartbeat = 250ms;
  Duration death = 1500ms;
  Duration spin{0};       ///< How long a shard's thread looks before it sleeps.
  bool multicast = true;  ///< Results to all at once.
  net::FaultPlan faults;
};

struct CommandLine {
  DaemonOptions daemon;
  runtime::LogOptions log;
  bool json_ready = false;  ///< Say so in JSON, for programs that start us.
};

/// The program is done before it began: --help, --version, or words that make no sense.
struct ExitNow {
  int code = 0;
  std::string text;  ///< For standard output if `code` is 0, else for standard error.
};

inline constexpr int kExitUsage = 2;

/// @param lookup  where variables come from; tests bring their own.
std::variant<CommandLine, ExitNow> parse_command_line(
    int argc, const char* const* argv,
    const runtime::EnvironmentLookup& lookup = runtime::environment);

}  // namespace sumcast::daemon
