#include "plan/timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>

#include "base/assert.h"

namespace sumcast::plan {
namespace {

/// Lays computing out from zero on, and hands back when, and with which event, layers end.
class Layout {
 public:
  size_t compute(std::string name, double duration_s) {
    TimelineEvent event{std::move(name), false, now_s_, duration_s, 0, {}};
    if (last_) event.after.push_back(*last_);
    event.after.insert(event.after.end(), awaited_.begin(), awaited_.end());
    awaited_.clear();
    now_s_ += duration_s;
    timeline_.events.push_back(std::move(event));
    last_ = timeline_.events.size() - 1;
    return *last_;
  }
  void sum(double bytes, double start_s, double duration_s, std::vector<size_t> after) {
    sums_.push_back(timeline_.events.size());
    timeline_.events.push_back({"all-reduce", true, start_s, duration_s, bytes, std::move(after)});
  }
  /// What is computed next needs the i-th sum, which ends at `end_s`.
  void await(size_t i, double end_s) {
    now_s_ = std::max(now_s_, end_s);
    awaited_.push_back(sums_[i]);
  }
  double now_s() const { return now_s_; }
  Timeline finish(double step_s) && {
    timeline_.step_s = step_s;
    return std::move(timeline_);
  }

 private:
  Timeline timeline_;
  double now_s_ = 0;
  std::optional<size_t> last_;
  std::vector<size_t> sums_, awaited_;
};

/// A sum on the link.
struct Sent {
  size_t bucket = 0;
  double start_s = 0, end_s = 0;
};

using CostFn = std::function<Cost(double bytes)>;

/// The link serves buckets in `order`, each from when it is ready.
std::vector<Sent> serve(const std::vector<Bucket>& buckets, const std::vector<double>& ready_s,
                        const std::vector<size_t>& order, const CostFn& cost) {
  std::vector<Sent> sums;
  double free_s = 0;
  for (const size_t bucket : order) {
    const Cost c = cost(buckets[bucket].bytes);
    const double start_s = std::max(free_s, ready_s[bucket]);
    free_s = start_s + c.occupancy_s;
    sums.push_back({bucket, start_s, start_s + c.latency_s});
  }
  return sums;
}

/// Backward, and the sums that begin under it. The layout's time is where backward begins.
std::vector<Sent> lay_backward(Layout& layout, const StepShape& step,
                               const std::vector<Bucket>& buckets, std::vector<size_t> order,
                               const CostFn& cost) {
  std::vector<size_t> last(buckets.size());
  std::vector<double> ready_s(buckets.size());
  size_t layer = step.layers.size();
  for (size_t b = 0; b < buckets.size(); ++b) {
    while (layer > buckets[b].first) {
      --layer;
      last[b] = layout.compute(fmt::format("backward {}", layer), step.layers[layer].backward_s);
    }
    ready_s[b] = layout.now_s();
  }
  if (order.empty()) {
    order.resize(buckets.size());
    std::iota(order.begin(), order.end(), size_t{0});
  }
  std::vector<Sent> sums = serve(buckets, ready_s, order, cost);
  for (const Sent& sum : sums) {
    layout.sum(buckets[sum.bucket].bytes, sum.start_s, sum.end_s - sum.start_s, {last[sum.bucket]});
  }
  return sums;
}

/// From one start of backward to the next: each layer's forward waits for its own sum.
void lay_priority(Layout& layout, const StepShape& step, double bucket_bytes, const CostFn& cost) {
  const std::vector<Bucket> buckets = buckets_of(step, bucket_bytes);
  const LinkFn link = [&](double bytes) {
    const Cost c = cost(bytes);
    return LinkTime{c.latency_s, c.occupancy_s, c.drag};
  };
  const std::vector<size_t> order = overlap_step(step, link, true, bucket_bytes).order;
  const std::vector<Sent> sums = lay_backward(layout, step, buckets, order, cost);
  for (size_t layer = 0; layer < step.layers.size(); ++layer) {
    for (size_t i = 0; i < sums.size(); ++i) {
      const Bucket& bucket = buckets[sums[i].bucket];
      if (bucket.first == layer) layout.await(i, sums[i].end_s);
    }
    const double share = step.bytes() > 0 ? step.layers[layer].bytes / step.bytes() : 0;
    if (step.update_s > 0) layout.compute(fmt::format("update {}", layer), step.update_s * share);
    layout.compute(fmt::format("forward {}", layer), step.layers[layer].forward_s);
  }
}

}  // namespace

Timeline timeline_of(const Calibration& calibration, const StepShape& step, const Setting& setting,
                     const Mode& mode) {
  const Prediction predicted = predict(calibration, step, setting, mode);
  const CostFn cost = [&](double bytes) {
    Cost c = cost_of(calibration, mode.collective, mode.wire, setting.workers,
                     bytes * bytes_per_byte(mode.packing));
    if (mode.schedule == Schedule::kAsync) c.latency_s = own_exchange_s(c, setting.workers);
    return c;
  };
  const double bucket_bytes = std::max(setting.bucket_bytes, 1.0);
  Layout layout;
  if (mode.schedule == Schedule::kPriority) {
    lay_priority(layout, step, bucket_bytes, cost);
    return std::move(layout).finish(predicted.step_s);
  }
  const bool piped = mode.schedule == Schedule::kPipe;
  if (piped) layout.sum(step.bytes(), 0, cost(step.bytes()).latency_s, {});
  for (size_t layer = 0; layer < step.layers.size(); ++layer) {
    layout.compute(fmt::format("forward {}", layer), step.layers[layer].forward_s);
  }
  if (piped) {
    for (size_t layer = step.layers.size(); layer-- > 0;) {
      layout.compute(fmt::format("backward {}", layer), step.layers[layer].backward_s);
    }
  } else {
    const bool whole = mode.schedule != Schedule::kOverlap;
    const std::vector<Bucket> buckets = buckets_of(step, whole ? step.bytes() : bucket_bytes);
    const std::vector<Sent> sums = lay_backward(layout, step, buckets, {}, cost);
    for (size_t i = 0; i < sums.size(); ++i) layout.await(i, sums[i].end_s);
  }
  // Late sums are applied a step later: a pipeline's update waits for nothing that is seen here.
  layout.compute("update", step.update_s);
  return std::move(layout).finish(predicted.step_s);
}

std::string to_perfetto(const Timeline& timeline, int steps) {
  SUMCAST_ASSERT(steps >= 1);
  using Json = nlohmann::ordered_json;
  constexpr int kProcess = 1, kComputing = 1, kSums = 2, kSteps = 3;
  Json events = Json::array();
  const auto name_lane = [&](const char* what, int lane, const char* name) {
    events.push_back({{"ph", "M"},
                      {"name", what},
                      {"pid", kProcess},
                      {"tid", lane},
                      {"args", {{"name", name}}}});
  };
  name_lane("process_name", 0, "one worker, as predicted");
  name_lane("thread_name", kComputing, "computing");
  name_lane("thread_name", kSteps, "steps");
  // Slices of one lane must not overlap: sums that are under way at once have lanes of their own.
  std::vector<double> lanes_free_s;
  const auto lane_of_sum = [&](double start_s, double end_s) {
    constexpr double kRounding = 1e-12;
    size_t lane = 0;
    while (lane < lanes_free_s.size() && lanes_free_s[lane] > start_s + kRounding) ++lane;
    const int number = lane == 0 ? kSums : kSteps + static_cast<int>(lane);
    if (lane == lanes_free_s.size()) {
      lanes_free_s.push_back(0);
      name_lane("thread_name", number, "sums under way");
    }
    lanes_free_s[lane] = end_s;
    return number;
  };
  const auto add = [&](const std::string& name, const char* category, int lane, double start_s,
                       double duration_s, Json args) {
    events.push_back({{"ph", "X"},
                      {"cat", category},
                      {"name", name},
                      {"ts", start_s * 1e6},
                      {"dur", duration_s * 1e6},
                      {"pid", kProcess},
                      {"tid", lane},
                      {"args", std::move(args)}});
  };
  for (int step = 0; step < steps; ++step) {
    const double origin = step * timeline.step_s;
    add(fmt::format("ProfilerStep#{}", step), "user_annotation", kSteps, origin, timeline.step_s,
        Json::object());
    for (const TimelineEvent& event : timeline.events) {
      if (!event.sum) {
        add(event.name, "cpu_op", kComputing, origin + event.start_s, event.duration_s,
            Json::object());
        continue;
      }
      const double start_s = origin + event.start_s;
      add("record_param_comms", "cpu_op", lane_of_sum(start_s, start_s + event.duration_s), start_s,
          event.duration_s,
          {{"Collective name", "allreduce"},
           {"dtype", "Float"},
           {"In msg nelems", event.bytes / 4},
           {"Out msg nelems", event.bytes / 4}});
    }
  }
  return Json{{"traceEvents", std::move(events)}, {"displayTimeUnit", "ms"}}.dump(1) + "\n";
}

}  // namespace sumcast::plan
