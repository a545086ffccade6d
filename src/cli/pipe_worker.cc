#include "cli/pipe_worker.h"

#include <algorithm>
#include <cstdio>
#include <functional>
#include <iostream>
#include <memory>

#include "cli/async_server.h"
#include "cli/group_averager.h"
#include "cli/pipe_steps.h"
#include "cli/probe.h"
#include "sumcast/sumcast.hpp"

namespace sumcast::cli {
namespace {

/// What may be in flight is bounded by the receive buffers, one for each flow (P11): one alone
/// holds 0.2 MB, too little for a link of 200 Mbit/s with a round trip of 40 ms.
constexpr uint16_t kDelayedFlows = 8;

void say(const PipeAnswer& answer) {
  const std::string line = encode(answer) + "\n";
  std::fwrite(line.data(), 1, line.size(), stdout);
  std::fflush(stdout);
}

Result<std::unique_ptr<Context>> join(const PipeWorkerPlan& plan) {
  Options options;
  options.job = plan.job;
  options.rank = plan.rank;
  options.world = plan.world;
  options.aggregator = plan.aggregator;
  options.coordinator = plan.coordinator;
  options.key_file = plan.key_file;
  options.algorithm = plan.server               ? Algorithm::kServer
                      : plan.aggregator.empty() ? Algorithm::kDirect
                                                : Algorithm::kInNetwork;
  options.timeout = std::chrono::seconds(120);
  options.one_rank_per_host = true;  // Each plays a host, also on loopback.
  if (plan.delay_ns > 0) {
    options.faults.delay = std::chrono::nanoseconds(plan.delay_ns);
    options.flows = kDelayedFlows;
  }
  options.tag = "bench pipeline";
  return Context::create(options);
}

/// A step's computing, a layer and direction at a time. `work` outlives it.
std::vector<std::function<void()>> computing_of(trainer::Workload& work) {
  std::vector<std::function<void()>> slices;
  for (size_t layer = 0; layer < work.layers(); ++layer) {
    slices.emplace_back([&work, layer] { work.forward(layer); });
  }
  for (size_t layer = work.layers(); layer-- > 0;) {
    slices.emplace_back([&work, layer] { work.backward(layer); });
  }
  return slices;
}

Result<PipeAnswer> probe_lines(Group& group, trainer::Workload& work, const PipeTask& task) {
  ProbePlan wanted;
  wanted.pairs = task.pairs;
  wanted.large_bytes = work.gradients().size_bytes();
  wanted.small_bytes = wanted.large_bytes / 16 / sizeof(float) * sizeof(float);
  wanted.repeats = static_cast<int>(task.steps);
  wanted.alone_steps = static_cast<int>(task.warm);
  wanted.straggling = task.straggling;
  wanted.compute = computing_of(work);
  const Result<Probed> probed = probe(group, wanted);
  if (!probed) return fail(probed.error());
  PipeAnswer answer;
  answer.step_s = probed->compute_s;
  answer.network_deviation = probed->calibration.network_jitter;
  answer.straggling_s = probed->calibration.straggling_s.value_or(0);
  for (const auto& [pair, line] : probed->calibration.measured) {
    answer.lines.emplace_back(plan::Mode{plan::Schedule::kSync, pair.first, pair.second, 1}, line);
  }
  return answer;
}

Result<PipeAnswer> perform(const PipeTask& task, const PipeWorkerPlan& plan, Group& group,
                           trainer::Workload& work) {
  if (auto met = group.barrier(); !met) return fail(met.error());
  if (task.kind == PipeTask::Kind::kProbe) return probe_lines(group, work, task);
  std::unique_ptr<pipeline::Encoder> encoder = encoder_of(task.mode.packing);
  if (task.kind == PipeTask::Kind::kAlone) {
    // Where messages are gathered, adding them up is part of computing.
    std::vector<std::byte> all;
    const pipeline::Encoder* const messages = encoder.get();
    pipeline::BlockingAverager nobody(
        plan.rank, plan.world,
        [&](std::span<float> values) -> Result<void> {
          if (messages == nullptr) return {};
          all.clear();
          for (uint32_t rank = 0; rank < plan.world; ++rank) {
            all.insert(all.end(), messages->message().begin(), messages->message().end());
          }
          return mean_of_messages(*messages, all, plan.world, values);
        },
        [](std::span<double>) { return Result<void>(); });
    Result<PipeAnswer> alone = PipeSteps(work, task, nobody, nullptr, std::move(encoder)).run();
    if (!alone) return alone;
    if (auto met = compute_until_all_come(group, computing_of(work)); !met) {
      return fail(met.error());
    }
    return alone;
  }
  if (encoder != nullptr) {
    GatherAverager averager(group, *encoder);
    return PipeSteps(work, task, averager, &averager, std::move(encoder)).run();
  }
  GroupAverager averager(group,
                         Call{algorithm_of(task.mode.collective), task.mode.wire, std::nullopt});
  return PipeSteps(work, task, averager, &averager).run();
}

/// A task among workers and the asynchronous server.
Result<PipeAnswer> perform_async(const PipeTask& task, const PipeWorkerPlan& plan, Group& group,
                                 trainer::Workload& work) {
  const bool alone = task.kind == PipeTask::Kind::kAlone;
  if (alone && plan.rank != 0) return perform(task, plan, group, work);
  if (auto met = group.barrier(); !met) return fail(met.error());
  if (alone) {  // The workers meet behind it too, computing until all have come.
    if (auto met = group.barrier(); !met) return fail(met.error());
    return PipeAnswer{};
  }
  if (task.mode.schedule != plan::Schedule::kAsync) {
    return fail(ErrorCode::kInvalidArgument, "an asynchronous crew does nothing else");
  }
  if (plan.rank == 0) {
    if (auto done = AsyncServer(group, pipe_rule(), work.parameters()).serve(); !done) {
      return fail(done.error());
    }
    return PipeAnswer{};
  }
  AsyncWorker server(group);
  pipeline::BlockingAverager nobody;
  Result<PipeAnswer> answer = PipeSteps(work, task, nobody, nullptr, nullptr, &server).run();
  if (!answer) return answer;
  if (auto done = server.done(); !done) return fail(done.error());
  return answer;
}

Result<void> serve() {
  std::string line;
  if (!std::getline(std::cin, line)) {
    return fail(ErrorCode::kInvalidArgument,
                "pipe-worker reads its plan from standard input; sumcast bench pipeline starts it");
  }
  const Result<PipeWorkerPlan> plan = decode_pipe_plan(line);
  if (!plan) return fail(plan.error());
  auto layers = trainer::workload_layers(plan->model);
  if (!layers) return fail(ErrorCode::kInvalidArgument, "no model " + plan->model);
  trainer::Workload work(std::move(*layers), 1);
  Result<std::unique_ptr<Context>> context = join(*plan);
  if (!context) return fail(context.error());
  say({});
  while (std::getline(std::cin, line)) {
    const Result<PipeTask> task = decode_pipe_task(line);
    if (!task) return fail(task.error());
    const Result<PipeAnswer> answer =
        (plan->async ? perform_async : perform)(*task, *plan, (*context)->world(), work);
    if (!answer) return fail(answer.error());
    say(*answer);
  }
  return {};
}

}  // namespace

int run_pipe_worker() {
  const Result<void> served = serve();
  if (served) return 0;
  PipeAnswer last;
  last.error = served.error().what;
  say(last);
  return 1;
}

}  // namespace sumcast::cli
