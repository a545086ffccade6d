// `sumcast keygen FILE`: makes the file that lets workers and daemons into a job.
#pragma once

#include <CLI/CLI.hpp>

namespace sumcast::cli {

/// Sets `exit_code` to 0, or to 2 with a line on standard error if the file exists or cannot be
/// written.
void add_keygen_command(CLI::App& app, int& exit_code);

}  // namespace sumcast::cli
