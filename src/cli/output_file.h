// Files that a command writes for its user: a report, a document.
#pragma once

#include <string>

#include "base/result.h"

namespace sumcast::cli {

/// Why no file can be written at `path`, or "". Writes nothing: for before a long run.
std::string why_not_writable(const std::string& path);

/// The same for a file that a flag may name: kInvalidArgument with path and reason; nothing if the
/// path is empty.
Result<void> check_writable(const std::string& path);

/// Writes all of `text`. A regular file is replaced whole or not at all; what is no regular file (a
/// pipe, a terminal, /dev/null) and what a link points to is written into, and stays what it is.
///
/// @return kUnavailable with the path and the system's reason.
Result<void> write_output_file(const std::string& path, const std::string& text);

}  // namespace sumcast::cli
