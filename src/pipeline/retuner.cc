#include "pipeline/retuner.h"

#include <algorithm>
#include <numeric>

#include "base/assert.h"

namespace sumcast::pipeline {
namespace {

double seconds(Duration span) { return std::chrono::duration<double>(span).count(); }

}  // namespace

double steady_mean(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  const double most = 3 * *middle;
  const double sum = std::accumulate(values.begin(), values.end(), 0.0,
                                     [&](double all, double v) { return all + std::min(v, most); });
  return sum / static_cast<double>(values.size());
}

Retuner::Retuner(const TunerOptions& options, uint32_t width_max, uint32_t rank, uint32_t ranks,
                 double bytes, ClockFn now)
    : tuner_(options, width_max, ranks, bytes), rank_(rank), ranks_(ranks), now_(std::move(now)) {
  SUMCAST_ASSERT(now_);
  start_window();
  skip_ = 2;  // The first step is of cold caches, and has no step before it.
}

void Retuner::start_window() {
  left_ = tuner_.window_steps();
  drained_s_ = 0;
  busy_s_.clear();
  step_s_.clear();
}

std::vector<double> Retuner::due() {
  if (skip_ > 0 || left_ > 0) return {};
  const StepTimes times{steady_mean(busy_s_), steady_mean(step_s_), drained_s_};
  start_window();
  return share_of(times, rank_, ranks_);
}

void Retuner::drained(Instant begun) {
  const Duration took = now_() - begun;
  // Less of a wait: it may have been over long ago.
  if (2 * waited_ >= took) drained_s_ = seconds(took);
}

std::optional<std::string> Retuner::observe(std::span<const double> sums) {
  std::optional<std::string> reason = tuner_.observe(joined(sums));
  if (!reason) return reason;
  start_window();
  skip_ = tuner_.choice().width + 1;
  return reason;
}

void Retuner::step_ended(bool counts) {
  const Instant now = now_();
  const bool timed = last_.is_set();
  const double step_s = timed ? seconds(now - last_) : 0;
  const double busy_s = std::max(0.0, step_s - seconds(waited_));
  last_ = now;
  waited_ = Duration{};
  if (!counts) return;
  if (skip_ > 0) {
    --skip_;
    return;
  }
  if (left_ > 0) --left_;
  if (!timed) return;
  busy_s_.push_back(busy_s);
  step_s_.push_back(step_s);
}

bool Retuner::restore(const State& state) {
  if (!tuner_.restore(state.tuner)) return false;
  start_window();
  skip_ = state.skip;
  left_ = state.left;
  return true;
}

}  // namespace sumcast::pipeline
