// The worker processes of `sumcast bench pipeline` on one cluster, and the sumcastd that they join.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/pipe_cell.h"
#include "lab/cluster.h"

namespace sumcast::cli {

/// Where a crew's sums are made.
enum class PipeSite : uint8_t {
  kNone,        ///< No sumcastd: workers only compute.
  kAggregator,  ///< In place of a switch, a port per worker.
  kServer,      ///< On a host with one link like a worker's.
};

/// Everything ends with this object.
class PipeCrew {
 public:
  /// Starts all and waits until all have joined.
  /// @param cluster   outlives this; its workers are all used.
  /// @param key_file  read by every process while it starts.
  static Result<std::unique_ptr<PipeCrew>> start(const lab::Cluster& cluster, PipeSite site,
                                                 const std::string& model,
                                                 const std::string& key_file);
  /// Has all workers perform the task; answers by rank. Errors name the worker, or kAborted after
  /// Ctrl-C.
  Result<std::vector<PipeAnswer>> perform(const PipeTask& task, Duration patience);

 private:
  PipeCrew() = default;
  Result<PipeAnswer> answer_of(size_t rank, Duration patience);

  std::optional<lab::Process> daemon_;
  std::vector<lab::Process> workers_;
};

/// Means over answers of one task - workers who wait for one another take the same time - and the
/// first one's lines and spans.
PipeAnswer joined(const std::vector<PipeAnswer>& answers);

}  // namespace sumcast::cli
