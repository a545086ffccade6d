// What a method's run amounts to, and whether the demo kept its promises.
//
// Pure. Time in communication is not what a worker waits inside the all-reduce: with more workers
// than cores some come late, and the others wait for their *computation*. Who comes last to a step
// waits for nobody, so the smallest wait over all workers is what the network and the summing took:
//
//   communication = median over steps of min over workers of the time inside the all-reduce
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/time.h"
#include "cli/demo_messages.h"
#include "cli/demo_method.h"

namespace sumcast::cli {

/// Test accuracy that a full-size run must reach, and how far methods may lie apart.
inline constexpr double kPromisedAccuracy = 0.86;
inline constexpr double kPromisedSpread = 0.005;

/// What one run left: a result per worker, in rank order, and the bytes on each worker's link.
struct MethodRun {
  std::vector<WorkerResult> workers;
  /// Sent over the workers' links during the training, in rank order; empty without links.
  std::vector<uint64_t> link_bytes;
};

struct MethodOutcome {
  DemoMethod method;
  Duration step{};           ///< Largest of the workers' medians.
  Duration communication{};  ///< See above; at most `step`.
  /// Sent by one worker in one step, headers included; nothing if nobody could count them.
  std::optional<uint64_t> bytes_per_worker;
  double accuracy = 0.0;  ///< 0 to 1.
  std::vector<float> losses;
  uint64_t gradient_bytes = 0;
  std::vector<uint64_t> weights;  ///< Hashes of the final weights, one per rank.
  uint32_t width = 1;             ///< In force at the end, and the wire type.
  std::string wire;

  bool ranks_identical() const;
};

/// kInternal if the workers' results do not fit together.
Result<MethodOutcome> summarise(const DemoMethod& method, const MethodRun& run);

/// Is `outcome` the same on all ranks and, if its sums are canonical, the same as the other
/// canonical ones among `all`?
bool identical(const MethodOutcome& outcome, std::span<const MethodOutcome> all);

/// The promises that `all` breaks, one line each. Accuracy is promised for full-size runs only.
std::vector<std::string> broken_promises(std::span<const MethodOutcome> all, bool full_size);

}  // namespace sumcast::cli
