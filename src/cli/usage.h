// What every command of `sumcast` has in common: how words that make no sense are answered, and
// that output which could not be written is an error.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace sumcast::cli {

/// Has every option that takes a whole number from 0 up refuse a sign, which the parser would take
/// modulo 2^64. For after all commands were added.
void refuse_signs(CLI::App& app);

/// One line for people: which command, which word, what would do, where to read on.
/// "sumcast bench: --workers: 'x' is not a whole number from 0 up; see sumcast bench --help".
///
/// @param argv  as the parser got it; names the command.
std::string usage_problem(const CLI::App& app, int argc, const char* const* argv,
                          const CLI::ParseError& error);

/// Writes out what the program still holds for standard output.
///
/// @return "", or why something of it, now or earlier, did not arrive.
std::string finish_output();

}  // namespace sumcast::cli
