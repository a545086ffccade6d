// Chooses the width, and the way of summing, by what steps have taken: the timing model of plan/,
// calibrated over and over by the run itself.
//
// Every so many steps, a window, it is told two numbers that are the same on all ranks: what the
// slowest rank was busy in a step, and what a step took. With one width in force they say:
//
//   K = 1   the step is busy time, and behind it a whole sum: its latency
//   K > 1   busy time and step are alike    computing is what a step costs
//           the step is longer              either (busy + latency) / K, the sum being under way
//                                           too long, or the link's own time, its occupancy
//
// Which of the last two it is shows in the next width: a latency it hides, an occupancy it does
// not. So widths above two are tried one by one, and left again if they do not help. A width or a
// way that is not simpler has to promise kGain; one that is simpler may cost kLoss: in between
// nothing changes, so that noise does not either. Ranks that are told the same decide the same.
// Pure: no clock is read here.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/element.h"
#include "plan/cost.h"

namespace sumcast::pipeline {

/// How sums may travel.
struct Way {
  plan::Collective collective = plan::Collective::kDirect;
  WireFormat wire = WireFormat::kNative;
  bool operator==(const Way&) const = default;
};

struct TunerOptions {
  /// Ways that the user allows, best liked first; at least one, none twice. What they round
  /// differs, so nothing else is ever chosen.
  std::vector<Way> ways = {Way{}};
  uint32_t window_steps = 16;  ///< Steps that are looked at together, at least 2.
  uint32_t first_steps = 6;    ///< The same, while nothing is known yet and steps do not overlap.
  uint32_t patience = 2;       ///< Windows that must say the same before anything changes.
  /// Windows after which a sum is looked at anew, because nothing about it has shown meanwhile.
  uint32_t recheck_windows = 64;
};

/// What is in force.
struct Choice {
  uint32_t width = 1;
  uint32_t way = 0;  ///< Index into TunerOptions::ways.
  bool operator==(const Choice&) const = default;
};

/// Of one rank, means over a window's steps; seconds.
struct StepTimes {
  double busy_s = 0;     ///< Not waiting for late sums.
  double step_s = 0;     ///< All.
  double drained_s = 0;  ///< A sum that nothing ran beside, if there was one; else 0.
};
inline constexpr size_t kStepTimes = 3;

/// `times` of this rank where all ranks' will be once each has added its own: f64[kStepTimes *
/// ranks], zeros elsewhere.
std::vector<double> share_of(const StepTimes& times, uint32_t rank, uint32_t ranks);
/// What such a sum over ranks says of them together: the busiest, the mean step, the quickest sum.
StepTimes joined(std::span<const double> sums);

/// All that a tuner remembers.
struct TunerState {
  /// A way, as it was when it was last in force.
  struct Line {
    bool measured = false;
    bool settled = false;     ///< The occupancy has shown; else it is an upper bound.
    uint32_t late_width = 0;  ///< At which steps last waited for the latency; 0: they did not.
    double latency_s = 0;     ///< Of one sum.
    double occupancy_s = 0;   ///< Of the link, by one sum; at most the latency.
    double speed = 1;         ///< TunerState::speed then.
  };
  Choice choice, candidate;
  uint32_t agreed = 0;   ///< Windows in a row that spoke for `candidate`.
  uint32_t unseen = 0;   ///< Windows since something showed that another choice would need.
  uint64_t windows = 0;  ///< All.
  bool bare = false;     ///< compute_s is of a width of 1, and no other was in force since.
  double compute_s = 0;  ///< Of a step, nothing running beside it.
  double speed = 1;      ///< Time of a sum now, in that of the first one.
  double stolen_s = 0;   ///< What a sum beside it adds.
  std::vector<Line> lines;
};

class Tuner {
 public:
  static constexpr double kGain = 0.05;
  static constexpr double kLoss = 0.01;
  static constexpr double kClear = 0.2;  ///< A promise of so much needs no second window.

  /// @param width_max  widths 1 to this are allowed.
  /// @param bytes      of one sum, as f32.
  Tuner(const TunerOptions& options, uint32_t width_max, uint32_t ranks, double bytes);

  Choice choice() const { return state_.choice; }
  /// Steps of the window that begins now.
  uint32_t window_steps() const;

  /// A window with choice() in force throughout. Why the choice changes now, if it does; a clause
  /// for people.
  std::optional<std::string> observe(const StepTimes& times);

  /// What the model says a step takes.
  double predicted_s(Choice choice) const;

  const TunerState& state() const { return state_; }
  /// Takes up what a tuner with these options and ways has remembered; false, and nothing changed,
  /// if it cannot be one's.
  bool restore(const TunerState& state);

 private:
  void learn(const StepTimes& times);
  void learn_alone(const StepTimes& times);
  void learn_beside(const StepTimes& times);
  void scale(double factor);
  Choice decide(double step_s) const;
  bool looks_again(const StepTimes& times);
  void change_to(Choice choice);
  bool simpler(Choice a, Choice b) const;
  plan::Calibration calibration_for(Choice choice) const;
  double link_share(uint32_t way) const;
  TunerState::Line& line() { return state_.lines[state_.choice.way]; }
  const TunerState::Line& line() const { return state_.lines[state_.choice.way]; }

  TunerOptions options_;
  uint32_t width_max_;
  uint32_t ranks_;
  double bytes_;
  TunerState state_;
};

}  // namespace sumcast::pipeline
