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
  kAsync,       ///< On that host, by a process that all push to and pull from; no sumcastd.
};

/// Everything ends with this object.
class PipeCrew {
 public:
  /// Starts all and waits until all have joined.
  /// @param cluster   outlives this; its workers are all used.
  /// @param key_file  read by every process while it starts.
  /// @param delay     that every datagram gets, each way (TCP has none).
  static Result<std::unique_ptr<PipeCrew>> start(const lab::Cluster& cluster, PipeSite site,
                                                 const std::string& model,
                                                 const std::string& key_file,
                                                 Duration delay = Duration{0});
  /// Has all workers perform the task; their answers in order. Errors name the worker, or kAborted
  /// after Ctrl-C.
  Result<std::vector<PipeAnswer>> perform(const PipeTask& task, Duration patience);

 private:
  PipeCrew() = default;
  Result<void> spawn(const lab::Cluster& cluster, lab::Node node, const PipeWorkerPlan& plan);
  Result<PipeAnswer> answer_of(size_t rank, Duration patience);

  bool async_ = false;  ///< The first of workers_ is the server.
  std::optional<lab::Process> daemon_;
  std::vector<lab::Process> workers_;
};

}  // namespace sumcast::cli
