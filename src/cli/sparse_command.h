// `sumcast bench sparse`: rounds of sparse training over servers, and over servers and aggregator.
//
// One crew of processes runs all paths, by turns, on the same batches: workers and servers each
// behind a link of their own, the aggregator where a switch would be.
#pragma once

#include <CLI/CLI.hpp>

namespace sumcast::cli {

/// Registers `bench sparse`; returns it.
CLI::App* add_sparse_command(CLI::App& bench, int& exit_code);

}  // namespace sumcast::cli
