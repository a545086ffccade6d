#include "cli/demo_worker.h"

#include <fmt/format.h>

#include <cstdio>
#include <iostream>
#include <string>
#include <vector>

#include "cli/demo_messages.h"
#include "cli/demo_method.h"
#include "cli/group_averager.h"
#include "cli/probe.h"
#include "runtime/clock.h"
#include "sumcast/sumcast.hpp"
#include "trainer/train.h"

namespace sumcast::cli {
namespace {

/// What a datagram carries besides its payload: Ethernet, IPv4 and UDP headers, our header and tag.
constexpr uint64_t kOverheadBytes = 14 + 20 + 8 + 48;

/// The rate of the synchronous demo lies beyond what late gradients bear (docs/convergence.md).
constexpr float kLateRate = 0.03f;
constexpr uint32_t kAutoWidthMax = 4;

plan::Collective collective_of(Algorithm algorithm) {
  for (const plan::Collective collective :
       {plan::Collective::kInNetwork, plan::Collective::kDirect, plan::Collective::kServer}) {
    if (algorithm_of(collective) == algorithm) return collective;
  }
  return plan::Collective::kRing;
}

void say(const WorkerMessage& message) {
  const std::string line = encode(message) + "\n";
  std::fwrite(line.data(), 1, line.size(), stdout);
  std::fflush(stdout);
}

Result<std::unique_ptr<Context>> join(const WorkerPlan& plan, const DemoMethod& method) {
  Options options;
  options.job = plan.job;
  options.rank = plan.rank;
  options.world = plan.world;
  options.aggregator = plan.aggregator;
  options.coordinator = plan.coordinator;
  options.key_file = plan.key_file;
  options.algorithm = method.algorithm;
  options.timeout = std::chrono::milliseconds(plan.timeout_ms);
  options.join_timeout = std::chrono::seconds(60);
  options.one_rank_per_host = true;  // Each plays a host, also where all are on loopback.
  options.tag = fmt::format("demo, {}", plan.method);
  return Context::create(options);
}

/// What gradients may be sent as, what is not rounded first.
std::vector<WireFormat> wires_of(const WorkerPlan& plan, const DemoMethod& method) {
  std::vector<WireFormat> wires = {method.wire};
  const bool rounds = method.wire == WireFormat::kNative &&
                      plan::carries(collective_of(method.algorithm), WireFormat::kBF16);
  if (plan.auto_wire && rounds) wires.push_back(WireFormat::kBF16);
  return wires;
}

void late_gradients(const WorkerPlan& plan, const DemoMethod& method,
                    const std::vector<WireFormat>& wires, trainer::TrainOptions& options) {
  options.rate = kLateRate;
  options.pipeline = {};
  options.pipeline.width = plan.width == 0 ? kAutoWidthMax : plan.width;
  if (plan.width != 0) return;
  options.pipeline.tune.emplace().ways.clear();
  for (const WireFormat wire : wires) {
    options.pipeline.tune->ways.push_back({collective_of(method.algorithm), wire});
  }
}

/// Trains with `context`'s means, and records how long each step waited for its own.
Result<WorkerResult> train(const WorkerPlan& plan, const DemoMethod& method,
                           const trainer::FashionMnist& data, Context& context) {
  trainer::TrainOptions options;
  options.epochs = plan.epochs;
  options.batch = plan.batch;
  options.seed = plan.seed;
  options.limit_images = plan.images;
  const trainer::Place place{Rank(static_cast<uint16_t>(plan.rank)),
                             static_cast<uint16_t>(plan.world)};
  const std::vector<WireFormat> wires = wires_of(plan, method);
  std::vector<Call> calls;
  for (const WireFormat wire : wires) calls.push_back({method.algorithm, wire, {}});
  if (plan.width != 1) late_gradients(plan, method, wires, options);
  WorkerResult result;
  GroupAverager averager(context.world(), std::move(calls));
  const auto progress = [&](const trainer::TrainProgress& at) {
    if (plan.rank == 0) say(WorkerStep{static_cast<uint64_t>(at.step), at.loss});
  };
  const uint64_t datagrams_before = context.counters().datagrams_sent;
  Result<trainer::TrainOutcome> outcome =
      trainer::train(data, place, options, averager, progress, runtime::monotonic_now);
  if (!outcome) return fail(outcome.error());
  result.reductions = averager.waits();
  result.step_median = outcome->step_median;
  result.losses = std::move(outcome->losses);
  result.gradient_bytes = outcome->gradient_bytes;
  result.weights_hash = outcome->weights_hash;
  result.accuracy = outcome->accuracy;
  result.width = outcome->width;
  result.wire = name_of(wires[outcome->way]);
  result.datagram_bytes = (context.counters().datagrams_sent - datagrams_before) *
                          (context.payload_bytes() + kOverheadBytes);
  return result;
}

Result<void> run() {
  std::string line;
  if (!std::getline(std::cin, line)) {
    return fail(ErrorCode::kInvalidArgument,
                "demo-worker reads its plan from standard input; sumcast demo starts it");
  }
  const Result<WorkerPlan> plan = decode_plan(line);
  if (!plan) return fail(plan.error());
  const std::optional<DemoMethod> method = demo_method_from_name(plan->method);
  if (!method) return fail(ErrorCode::kInvalidArgument, "no method " + plan->method);
  const Result<trainer::FashionMnist> data = trainer::load_fashion_mnist(plan->data);
  if (!data) return fail(data.error());
  Result<std::unique_ptr<Context>> context = join(*plan, *method);
  if (!context) return fail(context.error());
  say(WorkerReady{});
  if (!std::getline(std::cin, line) || line != kGoLine) {
    return fail(ErrorCode::kAborted, "the driver did not start the training");
  }
  Result<WorkerResult> result = train(*plan, *method, *data, **context);
  if (!result) return fail(result.error());
  say(std::move(*result));
  // Nobody leaves before all have their result, so that the driver counts the training alone.
  while (std::getline(std::cin, line)) {
  }
  return {};
}

}  // namespace

int run_demo_worker() {
  const Result<void> done = run();
  if (done) return 0;
  say(WorkerFailed{done.error().what});
  return 1;
}

}  // namespace sumcast::cli
