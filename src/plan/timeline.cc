#include "plan/timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
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
    now_s_ += duration_s;
    timeline_.events.push_back(std::move(event));
    last_ = timeline_.events.size() - 1;
    return *last_;
  }
  void sum(double bytes, double start_s, double duration_s, std::vector<size_t> after) {
    sums_.push_back(timeline_.events.size());
    timeline_.events.push_back({"all-reduce", true, start_s, duration_s, bytes, std::move(after)});
  }
  /// The optimiser's update, behind computing and, if it needs them, the sums.
  void update(double duration_s, bool waits, double not_before_s) {
    now_s_ = std::max(now_s_, not_before_s);
    const size_t index = compute("update", duration_s);
    if (!waits) return;
    std::vector<size_t>& after = timeline_.events[index].after;
    after.insert(after.end(), sums_.begin(), sums_.end());
  }
  double now_s() const { return now_s_; }
  size_t last() const { return *last_; }
  Timeline finish(double step_s) && {
    timeline_.step_s = step_s;
    return std::move(timeline_);
  }

 private:
  Timeline timeline_;
  double now_s_ = 0;
  std::optional<size_t> last_;
  std::vector<size_t> sums_;
};

}  // namespace

Timeline timeline_of(const Calibration& calibration, const StepShape& step, const Setting& setting,
                     const Mode& mode) {
  const Prediction predicted = predict(calibration, step, setting, mode);
  const auto seconds = [&](double bytes) {
    return cost_of(calibration, mode.collective, mode.wire, setting.workers,
                   bytes * bytes_per_byte(mode.packing))
        .latency_s;
  };
  const bool sliced = mode.schedule == Schedule::kOverlap || mode.schedule == Schedule::kPriority;
  const bool piped = mode.schedule == Schedule::kPipe;
  Layout layout;
  if (piped) layout.sum(step.bytes(), 0, seconds(step.bytes()), {});
  for (size_t layer = 0; layer < step.layers.size(); ++layer) {
    layout.compute(fmt::format("forward {}", layer), step.layers[layer].forward_s);
  }
  double free_s = 0;
  size_t layer = step.layers.size();
  const double bucket_bytes = sliced ? setting.bucket_bytes : step.bytes();
  for (const Bucket& bucket : buckets_of(step, std::max(bucket_bytes, 1.0))) {
    while (layer > bucket.first) {
      --layer;
      layout.compute(fmt::format("backward {}", layer), step.layers[layer].backward_s);
    }
    if (piped) continue;
    const double start_s = std::max(free_s, layout.now_s());
    free_s = start_s + seconds(bucket.bytes);
    layout.sum(bucket.bytes, start_s, free_s - start_s, {layout.last()});
  }
  // Late sums are applied a step later: the update does not wait for what this step began.
  layout.update(step.update_s, !piped, free_s);
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
  name_lane("thread_name", kSums, "sums under way");
  name_lane("thread_name", kSteps, "steps");
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
      add("record_param_comms", "cpu_op", kSums, origin + event.start_s, event.duration_s,
          {{"Collective name", "allreduce"},
           {"dtype", "Float"},
           {"In msg nelems", event.bytes / 4},
           {"Out msg nelems", event.bytes / 4}});
    }
  }
  return Json{{"traceEvents", std::move(events)}, {"displayTimeUnit", "ms"}}.dump(1) + "\n";
}

}  // namespace sumcast::plan
