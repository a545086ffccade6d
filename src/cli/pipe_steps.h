// A model's steps under one schedule: computing, sums, updates, and when each took place.
#pragma once

#include <memory>

#include "base/result.h"
#include "cli/async_server.h"
#include "cli/group_averager.h"
#include "cli/pipe_cell.h"
#include "pipeline/pipeline.h"
#include "trainer/workload.h"

namespace sumcast::cli {

/// SGD with momentum, and the rate of all steps: so low that weights stay small over any number.
const pipeline::UpdateRule& pipe_rule();
inline constexpr float kPipeRate = 1e-6f;

/// Runs a task's steps. One thread; the library's own moves the sums.
class PipeSteps {
 public:
  /// @param averager  of the sums; `watched` is the same if its sums take time, else null (alone).
  /// @param encoder   of the mode, whose messages `averager` sends; null without one.
  /// @param server    null for all schedules but kAsync.
  PipeSteps(trainer::Workload& work, const PipeTask& task, pipeline::Averager& averager,
            WatchedAverager* watched, std::unique_ptr<pipeline::Encoder> encoder = nullptr,
            AsyncWorker* server = nullptr);
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
  Result<void> step_async();
  Result<void> step(pipeline::Pipeline& pipe);
  double waited_s(size_t since) const;
  size_t waits() const;
  void forward(size_t layer);
  void backward(size_t layer);
  void update(Slice& slice);
  Result<void> begin(size_t slice);
  Result<void> finish(size_t slice);
  void computed(Instant start);

  trainer::Workload& work_;
  const PipeTask& task_;
  pipeline::Averager& averager_;
  WatchedAverager* watched_;
  std::unique_ptr<pipeline::Encoder> encoder_;
  AsyncWorker* server_;
  std::vector<Duration> server_waits_;
  std::vector<Slice> slices_;  ///< As backward completes them.
  std::vector<bool> begun_, ready_;
  std::vector<double> forward_s_, backward_s_;
  std::vector<PipeSpan> spans_;
  bool records_ = false;
};

}  // namespace sumcast::cli
