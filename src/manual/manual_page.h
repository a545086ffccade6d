// What a program's command line says of itself, as a manual page and as completion for bash.
//
// help2man reads one --help text and guesses its structure; a tool with commands under commands is
// told here from the parser's own tables instead, so nothing can be out of date and nothing has to
// be installed to build the pages.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace sumcast::manual {

struct PageFacts {
  int section = 1;         ///< 1: of users, 8: of administrators.
  std::string version;     ///< "0.1.0".
  std::string about;       ///< Paragraphs of text, a blank line between two.
  std::string exit_codes;  ///< Likewise.
  std::string see_also;    ///< "sumcastd(8)"
};

/// The page in roff's man macros: options, commands with theirs, examples, variables (those of
/// runtime/config_keys.h). Commands and options without a group are hidden and left out.
std::string manual_page(const CLI::App& app, const PageFacts& facts);

/// A script for bash: commands, commands under commands, and flags; file names everywhere else.
std::string bash_completion(const CLI::App& app);

}  // namespace sumcast::manual
