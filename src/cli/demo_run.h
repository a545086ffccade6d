// The demo from beginning to end: prepare, run each method, show, check.
#pragma once

#include "cli/demo_options.h"

namespace sumcast::cli {

/// Runs the demo. Call it before the process has threads: it may have to enter a user namespace.
/// @return the exit status: 0; 1 if it failed or broke a promise; 2 for options that cannot work;
///         128 + signal if it was interrupted.
int run_demo(const DemoOptions& options);

}  // namespace sumcast::cli
