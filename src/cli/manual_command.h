// `sumcast manual-page` and `sumcast bash-completion`: what `cmake --install` asks the program for.
#pragma once

#include <CLI/CLI.hpp>

namespace sumcast::cli {

/// Hidden from people. Last of all commands, for its pages are about those that were added before.
void add_manual_commands(CLI::App& app, int& exit_code);

}  // namespace sumcast::cli
