// `sumcast bench`: times collectives of this library and of others in a cluster that it builds.
#pragma once

#include <CLI/CLI.hpp>

#include "cli/bench_plan.h"

namespace sumcast::cli {

/// Registers `bench` with its subcommand `kernel`, and the hidden `bench-worker`. Callbacks set
/// `exit_code`: 0; 1 for wrong elements, a missed NCCL_TESTS_MIN_BW, or a run that failed; 2 for
/// flags that make no sense; 128 + signal after Ctrl-C.
void add_bench_command(CLI::App& app, int& exit_code);

/// The flags of `bench`; for add_bench_command and its test.
void add_bench_flags(CLI::App& app, BenchFlags& flags);

}  // namespace sumcast::cli
