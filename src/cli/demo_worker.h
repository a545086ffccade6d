// One worker of the demo: a process that joins, trains, and tells the driver how it goes.
//
// It is the smallest honest user of the public API: data-parallel training whose only change from
// training alone is one all_reduce per step. It knows nothing of clusters and methods beyond what
// its plan says.
#pragma once

namespace sumcast::cli {

/// Runs the worker over standard input and output (demo_messages.h). Returns the exit status.
int run_demo_worker();

}  // namespace sumcast::cli
