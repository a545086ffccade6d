// How long to wait before something late is taken for lost, and before it is asked for again: both
// follow the round trips that were seen, below fixed limits. On a network of 10 Gbit/s a round trip
// takes less than a millisecond, and fixed waits of 15 would cost a third of the time at 1 % loss
// (sim/loss_cost); behind a queue of 20 ms short ones would ask for what is on its way.
#pragma once

#include <algorithm>
#include <chrono>

#include "base/time.h"

namespace sumcast::core {

class Patience {
 public:
  /// @param reorder  longest wait for something that was overtaken.
  /// @param repeat   longest wait before it is asked for again.
  Patience(Duration reorder, Duration repeat) : reorder_max_(reorder), repeat_max_(repeat) {}

  /// A round trip of this group, its wait for slower members included.
  void on_round_trip(Duration sample) {
    smoothed_ = smoothed_ == Duration{0} ? sample : smoothed_ + (sample - smoothed_) / 8;
  }
  Duration reorder() const { return within(smoothed_ / 4, kReorderMin, reorder_max_); }
  Duration repeat() const { return within(smoothed_ * 5 / 2, kRepeatMin, repeat_max_); }

 private:
  static constexpr Duration kReorderMin = std::chrono::microseconds(100);
  static constexpr Duration kRepeatMin = std::chrono::milliseconds(1);  // Scheduling noise.

  Duration within(Duration wanted, Duration least, Duration most) const {
    if (smoothed_ == Duration{0}) return most;
    return std::min(std::max(wanted, least), most);
  }

  Duration reorder_max_, repeat_max_;
  Duration smoothed_{0};
};

}  // namespace sumcast::core
