// `sumcast bench torch`: training steps of PyTorch over our backend and over gloo, side by side.
//
// What a user of DistributedDataParallel would see: the time of a step, and how much of it is
// communication that computing does not hide. Ranks are Python processes with the package `sumcast`
// (scripts/install-python.sh), in the same kind of cluster as `sumcast bench`.
#pragma once

#include <CLI/CLI.hpp>

namespace sumcast::cli {

/// Registers `torch` below `bench`. Returns the subcommand, for its parent to ask if it was meant.
CLI::App* add_torch_command(CLI::App& bench, int& exit_code);

}  // namespace sumcast::cli
