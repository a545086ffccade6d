// `sumcast status`: asks a daemon how it is and prints the answer, once or every second.
//
// The only file pair of this room that speaks HTTP. It knows where daemons serve and how to say
// that none does; what the answer looks like is status_text.h.
#pragma once

#include <iosfwd>
#include <string>

#include "base/result.h"

namespace CLI {
class App;
}

namespace sumcast::cli {

struct StatusOptions {
  std::string http;    ///< "127.0.0.1:4701": the daemon's --http address.
  bool json = false;   ///< The daemon's document as it is; with `watch` one line each time.
  bool watch = false;  ///< Again every second, until the daemon is gone or we are interrupted.
};

/// Prints to `out`. @return the exit code, 0.
/// Errors: kUnavailable if nobody answers there, kInvalidArgument if it is no sumcastd or the
/// address makes no sense.
Result<int> run_status(const StatusOptions& options, std::ostream& out);

/// Adds the subcommand. When it is parsed it runs; `exit_code` receives 0, or 1 after an error,
/// which is printed to standard error.
void add_status_command(CLI::App& app, int& exit_code);

}  // namespace sumcast::cli
