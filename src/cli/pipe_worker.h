// One worker of `sumcast bench pipeline`: computes a model's steps, under the schedule it is told.
#pragma once

namespace sumcast::cli {

/// The process `sumcast pipe-worker`: a plan, then tasks, one a line, until the input ends.
int run_pipe_worker();

}  // namespace sumcast::cli
