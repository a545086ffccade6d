// `sumcast bench convergence`: test accuracy of training with late and lossy gradients.
#pragma once

#include <CLI/CLI.hpp>

namespace sumcast::cli {

/// Registers `convergence` below `bench`; returns it, so that its parent can tell whether it was
/// meant.
CLI::App* add_convergence_command(CLI::App& bench, int& exit_code);

}  // namespace sumcast::cli
