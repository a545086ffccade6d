#include "cli/pipe_worker.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <memory>
#include <numeric>

#include "cli/probe.h"
#include "plan/fit.h"
#include "runtime/clock.h"
#include "sumcast/sumcast.hpp"
#include "trainer/sgd.h"

namespace sumcast::cli {
namespace {

constexpr float kRate = 1e-6f;  // Weights must stay small over any number of steps.
constexpr float kMomentum = 0.9f;
/// Steps at a task's end whose time line is kept.
constexpr uint32_t kRecordedSteps = 4;

double seconds(Duration span) { return std::chrono::duration<double>(span).count(); }

const trainer::Sgd& rule() {
  static const trainer::Sgd sgd(kMomentum);
  return sgd;
}

plan::StepShape shape_of(const trainer::Workload& work) {
  plan::StepShape shape;
  for (size_t layer = 0; layer < work.layers(); ++layer) {
    shape.layers.push_back({4.0 * static_cast<double>(work.span(layer).count), 0, 0});
  }
  return shape;
}

}  // namespace

PipeSteps::PipeSteps(trainer::Workload& work, const PipeTask& task, pipeline::Averager& averager,
                     GroupAverager* watched)
    : work_(work),
      task_(task),
      averager_(averager),
      watched_(watched),
      forward_s_(work.layers()),
      backward_s_(work.layers()) {
  make_slices();
}

void PipeSteps::make_slices() {
  const plan::StepShape shape = shape_of(work_);
  for (const plan::Bucket& bucket : plan::buckets_of(shape, shape.bytes() / kBucketsPerModel)) {
    Slice& slice = slices_.emplace_back();
    slice.first_layer = bucket.first;
    slice.last_layer = bucket.last;
    const size_t start = work_.span(bucket.first).offset;
    const trainer::LayerSpan end = work_.span(bucket.last);
    const size_t count = end.offset + end.count - start;
    slice.gradients = work_.gradients().subspan(start, count);
    slice.parameters = work_.parameters().subspan(start, count);
    slice.velocity.assign(count, 0.0f);
  }
}

void PipeSteps::computed(Instant start) {
  const Instant now = runtime::monotonic_now();
  if (watched_ != nullptr) watched_->look();
  if (records_) {
    if (!spans_.empty() && !spans_.back().sum && start.ns - spans_.back().end_ns < 20'000) {
      spans_.back().end_ns = now.ns;  // The next layer of the same stretch.
    } else {
      spans_.push_back({false, start.ns, now.ns});
    }
  }
}

void PipeSteps::forward(size_t layer) {
  const Instant start = runtime::monotonic_now();
  work_.forward(layer);
  forward_s_[layer] += seconds(runtime::monotonic_now() - start);
  computed(start);
}

void PipeSteps::backward(size_t layer) {
  const Instant start = runtime::monotonic_now();
  work_.backward(layer);
  backward_s_[layer] += seconds(runtime::monotonic_now() - start);
  computed(start);
}

/// The same training, gradients summed as one: synchronous or pipelined.
Result<void> PipeSteps::step_whole(pipeline::Pipeline& pipe) {
  for (size_t layer = 0; layer < work_.layers(); ++layer) forward(layer);
  for (size_t layer = work_.layers(); layer-- > 0;) backward(layer);
  auto report = pipe.step(work_.gradients(), 0.0f, kRate);
  if (!report) return fail(report.error());
  return {};
}

void PipeSteps::update(Slice& slice) {
  const Instant start = runtime::monotonic_now();
  rule().update({slice.parameters.data(), {slice.velocity.data()}}, slice.gradients, {kRate, 1},
                {slice.parameters.data(), {slice.velocity.data()}});
  computed(start);
}

Result<void> PipeSteps::begin(size_t slice) {
  begun_[slice] = true;
  return averager_.begin_mean(static_cast<uint32_t>(slice), slices_[slice].gradients);
}

Result<void> PipeSteps::finish(size_t slice) {
  if (!begun_[slice]) return {};  // The first step: nothing is under way yet.
  begun_[slice] = false;
  if (auto done = averager_.finish_mean(static_cast<uint32_t>(slice)); !done) return done;
  update(slices_[slice]);
  return {};
}

/// Overlap: sums begin as backward completes slices, and all are awaited behind it. Priority: they
/// begin in the planned order, and each is awaited by the forward pass of its own first layer.
Result<void> PipeSteps::step_sliced() {
  const bool priority = task_.mode.schedule == plan::Schedule::kPriority;
  for (size_t layer = 0; layer < work_.layers(); ++layer) {
    if (priority) {
      for (size_t s = 0; s < slices_.size(); ++s) {
        if (slices_[s].first_layer != layer) continue;
        if (auto done = finish(s); !done) return done;
      }
    }
    forward(layer);
  }
  std::fill(ready_.begin(), ready_.end(), false);
  size_t next = 0;  // Into the order.
  for (size_t layer = work_.layers(); layer-- > 0;) {
    backward(layer);
    for (size_t s = 0; s < slices_.size(); ++s)
      ready_[s] = ready_[s] || slices_[s].first_layer == layer;
    while (next < slices_.size() && ready_[task_.order.empty() ? next : task_.order[next]]) {
      const size_t slice = task_.order.empty() ? next : task_.order[next];
      if (auto done = begin(slice); !done) return done;
      ++next;
    }
  }
  if (priority) return {};
  for (size_t s = 0; s < slices_.size(); ++s) {
    if (auto done = finish(s); !done) return done;
  }
  return {};
}

Result<PipeAnswer> PipeSteps::run() {
  const size_t count = slices_.size();
  if (!task_.order.empty()) {
    std::vector<size_t> sorted = task_.order, expected(count);
    std::sort(sorted.begin(), sorted.end());
    std::iota(expected.begin(), expected.end(), size_t{0});
    if (sorted != expected) return fail(ErrorCode::kInvalidArgument, "not an order of all buckets");
  }
  begun_.assign(count, false);
  ready_.assign(count, false);
  const bool whole =
      task_.mode.schedule == plan::Schedule::kSync || task_.mode.schedule == plan::Schedule::kPipe;
  pipeline::PipelineOptions options;
  options.width = task_.mode.width;
  if (watched_ == nullptr) options.hash_every = 0;  // Nobody to compare weights with.
  pipeline::Pipeline pipe(options, rule(), averager_, work_.parameters());
  PipeAnswer answer;
  std::vector<double> times;
  Instant start = runtime::monotonic_now(), before = start;
  size_t waits_before = 0;
  for (uint32_t step = 0; step < task_.warm + task_.steps; ++step) {
    if (step == task_.warm) {
      start = before = runtime::monotonic_now();
      if (watched_ != nullptr) waits_before = watched_->waits().size();
      std::fill(forward_s_.begin(), forward_s_.end(), 0.0);
      std::fill(backward_s_.begin(), backward_s_.end(), 0.0);
    }
    records_ = step + kRecordedSteps >= task_.warm + task_.steps;
    if (watched_ != nullptr) watched_->record(records_);
    if (auto done = whole ? step_whole(pipe) : step_sliced(); !done) return fail(done.error());
    const Instant now = runtime::monotonic_now();
    if (step >= task_.warm) times.push_back(seconds(now - before));
    before = now;
  }
  const double total = seconds(before - start);
  answer.step_s = total / task_.steps;
  answer.deviation = plan::spread_of(times).relative_deviation;
  if (watched_ != nullptr) {
    double waited = 0;
    for (size_t i = waits_before; i < watched_->waits().size(); ++i) {
      waited += seconds(watched_->waits()[i]);
    }
    answer.idle_share = std::clamp(waited / total, 0.0, 1.0);
  }
  // What is still under way ends here, untimed.
  for (size_t s = 0; s < count && !whole; ++s) {
    if (auto done = finish(s); !done) return fail(done.error());
  }
  if (auto flushed = pipe.flush(); !flushed) return fail(flushed.error());
  answer.layers = shape_of(work_).layers;
  for (size_t layer = 0; layer < work_.layers(); ++layer) {
    answer.layers[layer].forward_s = forward_s_[layer] / task_.steps;
    answer.layers[layer].backward_s = backward_s_[layer] / task_.steps;
  }
  answer.spans = std::move(spans_);
  if (watched_ != nullptr) {
    for (const auto& [begun, ended] : watched_->recorded()) {
      answer.spans.push_back({true, begun.ns, ended.ns});
    }
  }
  return answer;
}

namespace {

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
  options.tag = "bench pipeline";
  return Context::create(options);
}

Result<PipeAnswer> probe_lines(Group& group, trainer::Workload& work, const PipeTask& task) {
  ProbePlan wanted;
  wanted.pairs = task.pairs;
  wanted.large_bytes = work.gradients().size_bytes();
  wanted.small_bytes = wanted.large_bytes / 16 / sizeof(float) * sizeof(float);
  wanted.repeats = static_cast<int>(task.steps);
  for (size_t layer = 0; layer < work.layers(); ++layer) {
    wanted.compute.emplace_back([&work, layer] { work.forward(layer); });
  }
  for (size_t layer = work.layers(); layer-- > 0;) {
    wanted.compute.emplace_back([&work, layer] { work.backward(layer); });
  }
  const Result<Probed> probed = probe(group, wanted);
  if (!probed) return fail(probed.error());
  PipeAnswer answer;
  answer.step_s = probed->compute_s;
  answer.network_deviation = probed->calibration.network_jitter;
  for (const auto& [pair, line] : probed->calibration.measured) {
    answer.lines.emplace_back(plan::Mode{plan::Schedule::kSync, pair.first, pair.second, 1}, line);
  }
  return answer;
}

Result<PipeAnswer> perform(const PipeTask& task, const PipeWorkerPlan& plan, Group& group,
                           trainer::Workload& work) {
  if (auto met = group.barrier(); !met) return fail(met.error());
  if (task.kind == PipeTask::Kind::kProbe) return probe_lines(group, work, task);
  if (task.kind == PipeTask::Kind::kAlone) {
    pipeline::BlockingAverager nobody(
        plan.rank, plan.world, [](std::span<float>) { return Result<void>(); },
        [](std::span<double>) { return Result<void>(); });
    return PipeSteps(work, task, nobody, nullptr).run();
  }
  GroupAverager averager(group,
                         Call{algorithm_of(task.mode.collective), task.mode.wire, std::nullopt});
  return PipeSteps(work, task, averager, &averager).run();
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
    const Result<PipeAnswer> answer = perform(*task, *plan, (*context)->world(), work);
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
