// `sumcast train`: trains a sparse model with workers and servers.
//
// Started by hand it is the whole job: every worker and server a thread of this process, over
// loopback. Started by a launcher (torchrun, mpirun, srun: their variables name rank and world) it
// is one member of workers + servers.
#pragma once

#include <CLI/CLI.hpp>

namespace sumcast::cli {

/// Registers the command.
void add_train_command(CLI::App& app, int& exit_code);

}  // namespace sumcast::cli
