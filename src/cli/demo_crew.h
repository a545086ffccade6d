// The processes of one method's run: a worker per node, sumcastd if the method wants one.
//
// Starts them, lets all workers begin together, counts what crosses their links meanwhile, and ends
// them. When something dies, the others fail for it a moment later; so the crew listens on for a
// while and then blames the one that died without a word before those that had something to say.
// It does not know what a method is worth (demo_result.h) nor how progress is shown.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/demo_messages.h"
#include "cli/demo_method.h"
#include "cli/demo_result.h"
#include "lab/cluster.h"

namespace sumcast::cli {

struct CrewOptions {
  std::vector<std::string> worker;  ///< Command that speaks demo_messages.h.
  std::vector<std::string> daemon;  ///< Command that takes sumcastd's flags.
  std::string directory;            ///< For what the processes write to standard error; must exist.
};

/// What rank 0 reports after each step.
using StepFn = std::function<void(const WorkerStep&)>;

/// Runs `method` once on all workers of `cluster`. `plan` is each worker's but for rank, world,
/// method and addresses, which are filled in here. When this returns no process is left.
///
/// Errors are one line that names who failed and its last words; kAborted "interrupted" after
/// SIGINT or SIGTERM (with a lab::ScopedInterrupt in place).
Result<MethodRun> run_method(lab::Cluster& cluster, const CrewOptions& options,
                             const DemoMethod& method, const WorkerPlan& plan,
                             const StepFn& on_step);

}  // namespace sumcast::cli
