// `sumcast hot`: which keys of a data set are hot, whether summing them in the network pays, and
// where they go.
#pragma once

#include <CLI/CLI.hpp>

#include "base/result.h"
#include "cli/hot_options.h"

namespace sumcast::cli {

/// Registers `hot`. `exit_code` receives 0, 1 for data or files that fail, 2 for wrong options.
void add_hot_command(CLI::App& app, int& exit_code);

/// Runs a study with valid options and returns what to print. Files of --out and --report are
/// written whole or not at all.
Result<std::string> run_hot(const HotOptions& asked);

}  // namespace sumcast::cli
