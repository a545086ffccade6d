// `sumcast bench kernel`: how fast one core adds, against how fast it can move memory.
//
// Two questions. Does the fold keep up with memory? Its rate stands beside that of a STREAM-like
// triad over the same working set, once as large as DRAM needs and once inside the L2 cache. And
// what could one daemon thread carry, if sockets cost nothing? For that, everything a thread does
// to a slot's datagrams besides receiving and sending them is done over and over: verify the tags
// of n contributions, fold them, sign the result.
#pragma once

#include <CLI/CLI.hpp>

namespace sumcast::cli {

/// Registers `kernel` below `bench`. Returns the subcommand, for its parent to ask if it was meant.
CLI::App* add_kernel_command(CLI::App& bench, int& exit_code);

}  // namespace sumcast::cli
