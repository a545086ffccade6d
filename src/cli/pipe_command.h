// The flags of `sumcast bench pipeline`, and its worker's hidden command.
#pragma once

#include <CLI/CLI.hpp>

namespace sumcast::cli {

/// Registers `pipeline` below `bench`; returns it, so that its parent can tell whether it was
/// meant.
CLI::App* add_pipe_command(CLI::App& bench, int& exit_code);
/// Registers the hidden `pipe-worker`.
void add_pipe_worker_command(CLI::App& app, int& exit_code);

}  // namespace sumcast::cli
