// What `sumcast bench pipeline` measures: cells, and what driver and workers say about them.
//
// A cell is a way to train (schedule, algorithm, wire type, width) on links of one rate. Driver and
// workers exchange one JSON object a line; decoding is strict. Pure.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "pipeline/encoder.h"
#include "plan/advice.h"

namespace sumcast::cli {

/// How much of the bench runs.
enum class PipeScope : uint8_t {
  kAll,
  kQuick,      ///< Fewer modes, shorter cells.
  kDecisions,  ///< Of the modes those that may be the best, in the shortest cells.
};

/// The modes of the bench at one ratio, in the order in which they run. With a delay (which
/// datagrams have, and TCP has not): those over sumcastd, of all widths.
std::vector<plan::Mode> pipe_modes(PipeScope scope, bool delayed = false);
/// Null for modes whose values are summed on their way.
std::unique_ptr<pipeline::Encoder> encoder_of(plan::Packing packing);

/// The rate of each link, bits per second, at which a ring's all-reduce of `bytes` among `workers`
/// takes `ratio` times `compute_s`, TCP's headers included.
uint64_t rate_for_ratio(double ratio, double bytes, double compute_s, uint32_t workers);

/// How a sum's bucket is cut in the overlapping modes: about as many as DDP has of a model of 100
/// MB.
inline constexpr double kBucketsPerModel = 5;

/// Told to a worker when it starts.
struct PipeWorkerPlan {
  std::string model;
  std::string job;
  std::string aggregator;   ///< sumcastd's "host:port".
  std::string coordinator;  ///< Without one: where rank 0 listens.
  std::string key_file;
  uint32_t rank = 0, world = 1;
  bool server = false;   ///< sumcastd plays a parameter server.
  bool async = false;    ///< Rank 0 is an asynchronous server; there is no sumcastd.
  int64_t delay_ns = 0;  ///< Of every datagram, each way.
};

/// What a worker is to do next.
struct PipeTask {
  enum class Kind : uint8_t {
    kAlone = 0,  ///< The mode's steps without any communication.
    kProbe = 1,  ///< Lines of `pairs` through two sizes, the larger the model's.
    kCell = 2,   ///< The mode's steps.
  };
  Kind kind = Kind::kCell;
  plan::Mode mode;
  uint32_t warm = 3, steps = 10;  ///< kProbe: steps alone around each; repeats.
  std::vector<size_t> order;      ///< Of buckets, for kPriority.
  std::vector<std::pair<plan::Collective, WireFormat>> pairs;
  bool straggling = false;  ///< kProbe: whether ranks' waits in synchronous steps are measured.
};

/// One stretch of a worker's time line; ns of CLOCK_MONOTONIC, which all namespaces share.
struct PipeSpan {
  bool sum = false;  ///< A sum under way; else computing.
  int64_t start_ns = 0, end_ns = 0;
  bool operator==(const PipeSpan&) const = default;
};

struct PipeAnswer {
  std::string error;     ///< One line; all else is void then.
  double step_s = 0;     ///< Mean over the task's steps.
  double deviation = 0;  ///< Relative, of single steps.
  double idle_share = 0;
  std::vector<plan::LayerShape> layers;                          ///< kAlone.
  std::vector<std::pair<plan::Mode, plan::MeasuredCost>> lines;  ///< kProbe; by algorithm and wire.
  double network_deviation = 0;                                  ///< kProbe.
  double straggling_s = 0;                                       ///< kProbe.
  std::vector<PipeSpan> spans;                                   ///< kCell: of the last steps.
};

/// Means over answers of one task - workers who wait for one another take the same time - and the
/// first one's lines and spans.
PipeAnswer joined(const std::vector<PipeAnswer>& answers);

std::string encode(const PipeWorkerPlan& plan);
std::string encode(const PipeTask& task);
std::string encode(const PipeAnswer& answer);
/// kInvalidArgument for anything but what encode() writes.
Result<PipeWorkerPlan> decode_pipe_plan(std::string_view line);
Result<PipeTask> decode_pipe_task(std::string_view line);
Result<PipeAnswer> decode_pipe_answer(std::string_view line);

}  // namespace sumcast::cli
