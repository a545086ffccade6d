// `sumcast plan`: what a training step will take in every mode, before anything is bought or run.
#pragma once

#include <CLI/CLI.hpp>

namespace sumcast::cli {

void add_plan_command(CLI::App& app, int& exit_code);

}  // namespace sumcast::cli
