// What a pipeline needs to re-tune itself: takes the times, passes them to the other ranks beside a
// step's facts, and gives the tuner what came back.
//
// The order of calls is that of steps: due() as a step's facts leave, waits around every wait for a
// late sum, observe() when facts with times came back, step_ended(). Which steps carry times, and
// when a choice changes, depends on counts and reduced values only: it is the same on all ranks.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/time.h"
#include "pipeline/tuner.h"

namespace sumcast::pipeline {

using ClockFn = std::function<Instant()>;

class Retuner {
 public:
  /// @param bytes  of a late sum, as f32.
  /// @param now    a monotonic clock.
  Retuner(const TunerOptions& options, uint32_t width_max, uint32_t rank, uint32_t ranks,
          double bytes, ClockFn now);

  Choice choice() const { return tuner_.choice(); }

  /// This rank's share of times, f64[kStepTimes * ranks], if a window is complete; else empty.
  std::vector<double> due();
  /// A wait for a late sum is over; `call` waits.
  template <typename Call>
  auto waiting(const Call& call) {
    const Instant start = now_();
    auto result = call();
    waited_ += now_() - start;
    return result;
  }
  /// A late sum that began at `begun` was waited for, and nothing ran beside it.
  void drained(Instant begun);
  Instant now() const { return now_(); }
  /// Sums over ranks of what due() gave. Why the choice changes, if it does.
  std::optional<std::string> observe(std::span<const double> sums);
  /// @param counts  false: another width than the choice's was in force.
  void step_ended(bool counts);
  /// What comes before the next step's end is not a step alone (a flush, an evaluation).
  void interrupted() { last_ = Instant{}; }

  /// All that ranks share; the times of a window that is not complete are dropped.
  struct State {
    TunerState tuner;
    uint32_t skip = 0, left = 0;
  };
  State state() const { return {tuner_.state(), skip_, left_}; }
  bool restore(const State& state);

 private:
  void start_window();

  Tuner tuner_;
  uint32_t rank_, ranks_;
  ClockFn now_;
  uint32_t skip_ = 0;  ///< Steps that are not looked at: after a change a pipeline fills first.
  uint32_t left_ = 0;  ///< Steps of the window to come.
  Instant last_;       ///< The end of the last step; unset: the next one is not timed.
  Duration waited_{};
  double drained_s_ = 0;
  std::vector<double> busy_s_, step_s_;
};

/// Their mean, none counted for more than three times the median; 0 of none.
double steady_mean(std::vector<double> values);

}  // namespace sumcast::pipeline
