// One worker of `sumcast bench pipeline`: computes a model's steps, under the schedule it is told.
#pragma once

#include "base/result.h"
#include "cli/group_averager.h"
#include "cli/pipe_cell.h"
#include "pipeline/pipeline.h"
#include "trainer/workload.h"

namespace sumcast::cli {

/// Runs a task's steps. One thread; the library's own moves the sums.
class PipeSteps {
 public:
  /// @param averager  of the sums; `watched` is the same if its sums take time, else null (alone).
  PipeSteps(trainer::Workload& work, const PipeTask& task, pipeline::Averager& averager,
            GroupAverager* watched);
  Result<PipeAnswer> run();

 private:
  struct Slice {
    size_t first_layer = 0, last_layer = 0;
    std::span<float> gradients, parameters;
    std::vector<float> velocity;
  };

  void make_slices();
  Result<void> step_whole(pipeline::Pipeline& pipe);
  Result<void> step_sliced();
  void forward(size_t layer);
  void backward(size_t layer);
  void update(Slice& slice);
  Result<void> begin(size_t slice);
  Result<void> finish(size_t slice);
  void computed(Instant start);

  trainer::Workload& work_;
  const PipeTask& task_;
  pipeline::Averager& averager_;
  GroupAverager* watched_;
  std::vector<Slice> slices_;  ///< As backward completes them.
  std::vector<bool> begun_, ready_;
  std::vector<double> forward_s_, backward_s_;
  std::vector<PipeSpan> spans_;
  bool records_ = false;
};

/// The process `sumcast pipe-worker`: a plan, then tasks, one a line, until the input ends.
int run_pipe_worker();

}  // namespace sumcast::cli
