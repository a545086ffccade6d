// Machines are shared: another tenant's work slows all of it by a quarter for some seconds, which
// is more than most modes of training differ by. What is measured in such seconds says nothing
// about a mode. So computing alone is looked at before and after, and a measurement between two
// looks that were not as fast as the reference is made again.
//
// The reference and the looks are computing without any sums: what counts is decided without
// looking at what is measured.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/time.h"

namespace sumcast::cli {

class SpeedWatch {
 public:
  /// Seconds of a step of computing, just now.
  using Look = std::function<Result<double>()>;
  using NowFn = std::function<Instant()>;

  /// Looks may differ by so much from the reference.
  static constexpr double kSteady = 0.05;
  /// Nothing is waited for longer than this at a time, ...
  static constexpr Duration kPatience = 6s;
  /// ... nor in all for longer than this and what was measured.
  static constexpr Duration kCredit = 10s;
  /// A look behind one measurement is that before the next, if it begins so soon.
  static constexpr Duration kFresh = 50ms;

  /// @param reference_s  a step of computing, undisturbed.
  /// @param now          a clock.
  SpeedWatch(double reference_s, NowFn now);

  /// What a step takes while nobody disturbs it: the lower quartile of times that were measured one
  /// after the other; of at least one.
  static double undisturbed(std::vector<double> times);

  double reference_s() const { return reference_s_; }

  /// Measures until the looks on both sides are steady, or no time is left for it.
  /// @return what was measured while the machine was closest to the reference, and by how much the
  ///         mean of its two looks was slower (0.1: by a tenth). Errors: of look and once.
  template <typename T>
  Result<std::pair<T, double>> steadily(const Look& look, const std::function<Result<T>()>& once) {
    const Instant begun = now_();
    Result<double> before = last_ && begun - last_->at <= kFresh ? last_->seconds : look();
    std::pair<T, double> best{};
    double closest = 0;
    for (bool first = true;; first = false) {
      while (before && !is_steady(*before) && may_wait(begun)) before = look();
      if (!before) return fail(before.error());
      const Instant start = now_();
      Result<T> measured = once();
      if (!measured) return fail(measured.error());
      const Duration took = now_() - start;
      const Result<double> after = look();
      if (!after) return fail(after.error());
      const double off = std::max(std::fabs(drift(*before)), std::fabs(drift(*after)));
      if (first || off < closest) {
        closest = off;
        best = {std::move(*measured), drift((*before + *after) / 2)};
      }
      if (off <= kSteady || !may_wait(begun)) {
        last_ = {*after, now_()};
        measured_ += took;
        waited_ += last_->at - begun - took;
        return best;
      }
      before = after;
    }
  }

 private:
  double drift(double seconds) const { return seconds / reference_s_ - 1; }
  bool is_steady(double seconds) const { return std::fabs(drift(seconds)) <= kSteady; }
  bool may_wait(Instant begun) const;

  struct Looked {
    double seconds = 0;
    Instant at;
  };

  double reference_s_;
  NowFn now_;
  std::optional<Looked> last_;  ///< Behind the last measurement.
  Duration measured_{0}, waited_{0};
};

}  // namespace sumcast::cli
