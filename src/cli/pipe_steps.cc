#include "cli/pipe_steps.h"

#include <algorithm>
#include <numeric>

#include "plan/fit.h"
#include "runtime/clock.h"
#include "trainer/sgd.h"

namespace sumcast::cli {
namespace {

/// Steps at a task's end whose time line is kept.
constexpr uint32_t kRecordedSteps = 4;

double seconds(Duration span) { return std::chrono::duration<double>(span).count(); }

plan::StepShape shape_of(const trainer::Workload& work) {
  plan::StepShape shape;
  for (size_t layer = 0; layer < work.layers(); ++layer) {
    shape.layers.push_back({4.0 * static_cast<double>(work.span(layer).count), 0, 0});
  }
  return shape;
}

}  // namespace

const pipeline::UpdateRule& pipe_rule() {
  static const trainer::Sgd sgd(0.9f);
  return sgd;
}

PipeSteps::PipeSteps(trainer::Workload& work, const PipeTask& task, pipeline::Averager& averager,
                     WatchedAverager* watched, std::unique_ptr<pipeline::Encoder> encoder,
                     AsyncWorker* server)
    : work_(work),
      task_(task),
      averager_(averager),
      watched_(watched),
      encoder_(std::move(encoder)),
      server_(server),
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
  auto report = pipe.step(work_.gradients(), 0.0f, kPipeRate);
  if (!report) return fail(report.error());
  return {};
}

void PipeSteps::update(Slice& slice) {
  const Instant start = runtime::monotonic_now();
  pipe_rule().update({slice.parameters.data(), {slice.velocity.data()}}, slice.gradients,
                     {kPipeRate, 1}, {slice.parameters.data(), {slice.velocity.data()}});
  computed(start);
}

Result<void> PipeSteps::begin(size_t slice) {
  begun_[slice] = true;
  const std::span<float> gradients = slices_[slice].gradients;
  return averager_.begin_mean(static_cast<uint32_t>(slice), gradients, gradients);
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

/// The gradient goes to the server, and its weights of that moment come back.
Result<void> PipeSteps::step_async() {
  for (size_t layer = 0; layer < work_.layers(); ++layer) forward(layer);
  for (size_t layer = work_.layers(); layer-- > 0;) backward(layer);
  const Instant start = runtime::monotonic_now();
  auto done = server_->step(work_.gradients(), kPipeRate, work_.parameters());
  const Instant end = runtime::monotonic_now();
  server_waits_.push_back(end - start);
  if (records_) spans_.push_back({true, start.ns, end.ns});
  return done;
}

Result<void> PipeSteps::step(pipeline::Pipeline& pipe) {
  switch (task_.mode.schedule) {
    case plan::Schedule::kSync:
    case plan::Schedule::kPipe:
      return step_whole(pipe);
    case plan::Schedule::kOverlap:
    case plan::Schedule::kPriority:
      return step_sliced();
    case plan::Schedule::kAsync:
      return step_async();
  }
  return {};
}

size_t PipeSteps::waits() const {
  if (server_ != nullptr) return server_waits_.size();
  return watched_ == nullptr ? 0 : watched_->waits().size();
}

double PipeSteps::waited_s(size_t since) const {
  if (server_ == nullptr && watched_ == nullptr) return 0;
  const auto& all = server_ != nullptr ? server_waits_ : watched_->waits();
  double sum = 0;
  for (size_t i = since; i < all.size(); ++i) sum += seconds(all[i]);
  return sum;
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
  const bool sliced = task_.mode.schedule == plan::Schedule::kOverlap ||
                      task_.mode.schedule == plan::Schedule::kPriority;
  pipeline::PipelineOptions options;
  options.width = task_.mode.width;
  if (watched_ == nullptr) options.hash_every = 0;  // Nobody to compare weights with.
  pipeline::Pipeline pipe(options, pipe_rule(), averager_, work_.parameters(), std::move(encoder_));
  PipeAnswer answer;
  std::vector<double> times;
  Instant start = runtime::monotonic_now(), before = start;
  size_t waits_before = 0;
  for (uint32_t step = 0; step < task_.warm + task_.steps; ++step) {
    if (step == task_.warm) {
      start = before = runtime::monotonic_now();
      waits_before = waits();
      std::fill(forward_s_.begin(), forward_s_.end(), 0.0);
      std::fill(backward_s_.begin(), backward_s_.end(), 0.0);
    }
    records_ = step + kRecordedSteps >= task_.warm + task_.steps;
    if (watched_ != nullptr) watched_->record(records_);
    if (auto done = this->step(pipe); !done) return fail(done.error());
    const Instant now = runtime::monotonic_now();
    if (step >= task_.warm) times.push_back(seconds(now - before));
    before = now;
  }
  const double total = seconds(before - start);
  answer.step_s = total / task_.steps;
  answer.deviation = plan::spread_of(times).relative_deviation;
  answer.idle_share = std::clamp(waited_s(waits_before) / total, 0.0, 1.0);
  // What is still under way ends here, untimed.
  for (size_t s = 0; s < count && sliced; ++s) {
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

}  // namespace sumcast::cli
