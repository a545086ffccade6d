// What the demo's driver and a worker process say to each other: one JSON object a line.
//
//   driver -> worker   the plan, "go" when all workers are ready, end of input when all are done
//   worker -> driver   ready, step (rank 0 only, after every step), then result or failed
//
// Decoding is strict: a line that is not exactly one of these is an error. The worker is our own
// program, but anything in its process may print, and a driver that guesses would hide it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "base/time.h"

namespace sumcast::cli {

/// All that a worker needs to know.
struct WorkerPlan {
  std::string method;  ///< A name from demo_methods().
  std::string job;     ///< Equal on all workers of the run.
  uint32_t rank = 0;
  uint32_t world = 1;
  std::string aggregator;   ///< sumcastd's "host:port"; empty: no daemon.
  std::string coordinator;  ///< Without a daemon, where rank 0 listens.
  std::string key_file;
  std::string data;  ///< Directory of the data set.
  int epochs = 3;
  int batch = 128;
  int images = 0;  ///< 0: all.
  uint64_t seed = 1;
  uint64_t timeout_ms = 60'000;  ///< Of one all-reduce.
  uint32_t width = 1;            ///< Steps under way at once; 0: chosen by what steps take.
  bool auto_wire = false;        ///< The wire type as well.

  bool operator==(const WorkerPlan&) const = default;
};

/// The line that starts training.
inline constexpr std::string_view kGoLine = "go";

/// The worker has its data and has joined; it waits for the others.
struct WorkerReady {};

struct WorkerStep {
  uint64_t step = 0;  ///< Steps done, from 1.
  float loss = 0.0f;  ///< Of this rank's batch; NaN if training diverged.
};

/// The outcome of a worker's training.
struct WorkerResult {
  Duration step_median{};
  std::vector<Duration> reductions;  ///< Time inside the all-reduce, one per step.
  std::vector<float> losses;         ///< One per step.
  uint64_t gradient_bytes = 0;
  uint64_t weights_hash = 0;
  uint64_t datagram_bytes = 0;     ///< Sent as datagrams, headers included, by the library's count.
  std::optional<double> accuracy;  ///< 0 to 1; rank 0 only.
  uint32_t width = 1;              ///< In force at the end, and the wire type.
  std::string wire;
};

struct WorkerFailed {
  std::string text;  ///< One line.
};

using WorkerMessage = std::variant<WorkerReady, WorkerStep, WorkerResult, WorkerFailed>;

/// Without the newline.
std::string encode(const WorkerPlan& plan);
std::string encode(const WorkerMessage& message);

/// kInvalidArgument if `line` is not what it should be; never throws.
Result<WorkerPlan> decode_plan(std::string_view line);
Result<WorkerMessage> decode_message(std::string_view line);

}  // namespace sumcast::cli
