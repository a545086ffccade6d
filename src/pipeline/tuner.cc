#include "pipeline/tuner.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "base/assert.h"
#include "plan/advice.h"

namespace sumcast::pipeline {
namespace {

/// Times this close to each other are alike.
constexpr double kAlike = 0.03;

plan::Mode mode_of(const Way& way, uint32_t width) {
  const auto schedule = width == 1 ? plan::Schedule::kSync : plan::Schedule::kPipe;
  return {schedule, way.collective, way.wire, width};
}

double milliseconds(double seconds) { return seconds * 1e3; }

}  // namespace

std::vector<double> share_of(const StepTimes& times, uint32_t rank, uint32_t ranks) {
  SUMCAST_ASSERT(rank < ranks);
  std::vector<double> share(kStepTimes * ranks, 0.0);
  share[kStepTimes * rank] = times.busy_s;
  share[kStepTimes * rank + 1] = times.step_s;
  share[kStepTimes * rank + 2] = times.drained_s;
  return share;
}

StepTimes joined(std::span<const double> sums) {
  SUMCAST_ASSERT(!sums.empty() && sums.size() % kStepTimes == 0);
  StepTimes all;
  for (size_t i = 0; i < sums.size(); i += kStepTimes) {
    all.busy_s = std::max(all.busy_s, sums[i]);
    all.step_s += sums[i + 1];
    const double drained = sums[i + 2];
    if (drained > 0 && (all.drained_s == 0 || drained < all.drained_s)) all.drained_s = drained;
  }
  all.step_s /= static_cast<double>(sums.size() / kStepTimes);
  return all;
}

Tuner::Tuner(const TunerOptions& options, uint32_t width_max, uint32_t ranks, double bytes)
    : options_(options), width_max_(width_max), ranks_(ranks), bytes_(bytes) {
  SUMCAST_ASSERT(!options.ways.empty() && width_max >= 1 && ranks >= 1);
  state_.lines.resize(options.ways.size());
}

uint32_t Tuner::window_steps() const {
  const bool glance = state_.windows == 0 || state_.agreed >= options_.patience;
  if (glance) return options_.first_steps;
  // Steps that wait for latencies repeat themselves every K.
  const uint32_t width = state_.choice.width;
  return (options_.window_steps + width - 1) / width * width;
}

std::optional<std::string> Tuner::observe(const StepTimes& times) {
  // A window in which no time was taken, or a broken clock: nothing to learn from.
  if (!(times.busy_s > 0) || !(times.step_s > 0) || !std::isfinite(times.busy_s) ||
      !std::isfinite(times.step_s)) {
    return std::nullopt;
  }
  learn(times);
  ++state_.windows;
  const Choice before = state_.choice;
  if (looks_again(times)) {
    change_to({1, before.way});
    state_.agreed = options_.patience;  // One window is enough to return.
    return fmt::format("nothing has shown about sums in {} windows: a look at one alone",
                       options_.recheck_windows);
  }
  const double step_s = std::max(times.step_s, times.busy_s);
  const bool at_once = state_.windows == 1 || state_.agreed >= options_.patience;
  const Choice best = decide(step_s);
  if (best == before) {
    state_.agreed = 0;
    return std::nullopt;
  }
  state_.agreed = best == state_.candidate ? state_.agreed + 1 : 1;
  state_.candidate = best;
  const bool clear = predicted_s(best) < (1 - kClear) * step_s;
  if (!at_once && !clear && state_.agreed < options_.patience) return std::nullopt;
  const Way& way = options_.ways[best.way];
  std::string reason = fmt::format(
      "a step of K = {} takes {:.3g} ms, busy {:.3g}, a sum {:.3g}; K = {}, {}, {} should take "
      "{:.3g}",
      before.width, milliseconds(step_s), milliseconds(times.busy_s),
      milliseconds(line().latency_s), best.width, plan::name_of(way.collective), name_of(way.wire),
      milliseconds(predicted_s(best)));
  change_to(best);
  return reason;
}

void Tuner::change_to(Choice choice) {
  TunerState::Line& next = state_.lines[choice.way];
  if (!next.measured) {  // Until it shows otherwise it is what was promised.
    const Way& way = options_.ways[choice.way];
    const plan::Cost promised =
        plan::cost_of(calibration_for(choice), way.collective, way.wire, ranks_, bytes_);
    next.latency_s = promised.latency_s;
    next.occupancy_s = promised.occupancy_s;
  } else {
    next.latency_s *= state_.speed / next.speed;
    next.occupancy_s *= state_.speed / next.speed;
  }
  next.speed = state_.speed;
  state_.choice = choice;
  state_.agreed = 0;
  state_.unseen = 0;
}

/// Whether to leave a width for a look at a sum that nothing runs beside. Where steps wait for the
/// network it is enough to believe again that it is its latency, which a larger width would hide;
/// and at K = 1 that a sum takes less of computing than it once did.
bool Tuner::looks_again(const StepTimes& times) {
  if (state_.unseen < options_.recheck_windows) return false;
  state_.unseen = 0;
  if (state_.choice.width == 1) {
    state_.stolen_s /= 2;
    return false;
  }
  if (!line().settled) return true;
  line().settled = false;
  line().late_width = state_.choice.width;
  line().latency_s = state_.choice.width * times.step_s - times.busy_s;
  return false;
}

void Tuner::learn(const StepTimes& times) {
  ++state_.unseen;
  if (state_.choice.width == 1) {
    learn_alone(times);
  } else {
    learn_beside(times);
  }
  line().measured = true;
  line().latency_s = std::max(line().latency_s, line().occupancy_s);
}

void Tuner::learn_alone(const StepTimes& times) {
  TunerState::Line& here = line();
  state_.compute_s = times.busy_s;
  state_.bare = true;
  const double latency_s = std::max(0.0, times.step_s - times.busy_s);
  scale(latency_s / here.latency_s);
  // As on a local network, until a larger width shows more.
  if (!here.settled) here.occupancy_s = latency_s;
  here.latency_s = latency_s;
  here.late_width = 0;
}

void Tuner::learn_beside(const StepTimes& times) {
  TunerState::Line& here = line();
  const double busy_s = times.busy_s, step_s = std::max(times.step_s, busy_s);
  const double width = state_.choice.width;
  const bool fresh = state_.bare;
  if (fresh) {
    state_.stolen_s = std::clamp(busy_s - state_.compute_s, 0.0, busy_s / 2);
    state_.bare = false;
  }
  state_.compute_s = std::max(busy_s - state_.stolen_s, busy_s / 2);
  if (step_s <= (1 + kAlike) * busy_s) {
    if (times.drained_s > 0) {
      here.latency_s = times.drained_s;
      state_.unseen = 0;
    }
    here.latency_s = std::min(here.latency_s, width * step_s - busy_s);
    here.occupancy_s = std::min({here.occupancy_s, here.latency_s, step_s});
    here.late_width = 0;
    here.settled = false;
    return;
  }
  const double by_latency_s = (busy_s + here.latency_s) / width;
  const double hidden_by_width_s = width * step_s - busy_s;
  if (here.settled) {
    const bool by_link = here.occupancy_s >= by_latency_s;
    scale(by_link ? step_s / here.occupancy_s : hidden_by_width_s / here.latency_s);
  } else if ((!fresh && here.late_width == 0) || here.late_width == state_.choice.width ||
             step_s <= (1 + kAlike) * by_latency_s) {
    scale(hidden_by_width_s / here.latency_s);
    here.latency_s = hidden_by_width_s;
    here.occupancy_s = std::min(here.occupancy_s, step_s);
    here.late_width = state_.choice.width;
  } else {
    here.occupancy_s = step_s;
    here.settled = true;
    here.late_width = 0;
  }
}

/// The link has become slower or faster: both sides of a sum's cost change alike, and those of the
/// other ways with them. Not the first time that a way is in force: a promise was wrong then.
void Tuner::scale(double factor) {
  TunerState::Line& here = line();
  if (!here.measured || !std::isfinite(factor) || !(factor > 0)) return;
  here.latency_s *= factor;
  here.occupancy_s *= factor;
  state_.speed *= factor;
  here.speed = state_.speed;
}

/// Seconds per byte and second of a sum's occupancy by the formulas.
double Tuner::link_share(uint32_t way) const {
  plan::Calibration unit;
  unit.alpha_s = unit.startup_s = 0;
  unit.up_s_per_byte = unit.down_s_per_byte = 1;
  const Way& of = options_.ways[way];
  return plan::cost_of(unit, of.collective, of.wire, ranks_, bytes_).occupancy_s;
}

/// What is known of the choice's way, as a calibration of one size: its own line if it was ever in
/// force, at the link's speed of now; else the formulas at that speed.
plan::Calibration Tuner::calibration_for(Choice choice) const {
  plan::Calibration result;
  result.compute_jitter = result.network_jitter = 0;  // Times are of the slowest rank already.
  const TunerState::Line& now = line();
  const TunerState::Line& wanted = state_.lines[choice.way];
  const double bytes = std::max(bytes_, 1.0);
  if (!wanted.measured) {
    result.alpha_s = std::max(0.0, now.latency_s - now.occupancy_s) / 2;
    result.startup_s = 0;
    const double share = link_share(state_.choice.way);
    const double s_per_byte = share > 0 ? now.occupancy_s / share : 0;
    result.up_s_per_byte = result.down_s_per_byte = s_per_byte;
    result.stolen_s_per_byte = state_.stolen_s / bytes;
    return result;
  }
  const double speed = state_.speed / wanted.speed;
  const double latency_s = speed * wanted.latency_s;
  // The next width is believed to help until it was tried.
  const bool hopes = !wanted.settled && choice.width > 2 && choice.width > state_.choice.width;
  const double occupancy_s = hopes ? 0 : speed * wanted.occupancy_s;
  const Way& way = options_.ways[choice.way];
  result.measured[{way.collective, way.wire}] = {latency_s - occupancy_s, occupancy_s / bytes,
                                                 state_.stolen_s / bytes, 1};
  return result;
}

double Tuner::predicted_s(Choice choice) const {
  const plan::StepShape step = plan::even_step(std::max(bytes_, 1.0), state_.compute_s, 1);
  return plan::predict(calibration_for(choice), step, plan::Setting{ranks_},
                       mode_of(options_.ways[choice.way], choice.width))
      .step_s;
}

/// Fewer steps of delay, then what the user likes better.
bool Tuner::simpler(Choice a, Choice b) const {
  return std::tuple(a.width, a.way) < std::tuple(b.width, b.way);
}

Choice Tuner::decide(double step_s) const {
  const Choice now = state_.choice;
  if (ranks_ == 1) return {1, now.way};
  struct Offer {
    Choice choice;
    double step_s;
  };
  std::vector<Offer> offers = {{now, step_s}};
  const uint32_t widest = std::min(width_max_, std::max(2u, now.width + 1));
  for (uint32_t width = 1; width <= widest; ++width) {
    for (uint32_t way = 0; way < options_.ways.size(); ++way) {
      const Choice choice{width, way};
      if (choice == now) continue;
      const double promised_s = predicted_s(choice);
      const double most = simpler(choice, now) ? (1 + kLoss) * step_s : (1 - kGain) * step_s;
      if (promised_s <= most) offers.push_back({choice, promised_s});
    }
  }
  const double fastest = std::ranges::min_element(offers, {}, &Offer::step_s)->step_s;
  const Offer* best = nullptr;
  for (const Offer& offer : offers) {
    if (offer.step_s > (1 + kAlike) * fastest) continue;
    if (best == nullptr || simpler(offer.choice, best->choice)) best = &offer;
  }
  return best->choice;
}

bool Tuner::restore(const TunerState& state) {
  const auto fits = [&](const Choice& choice) {
    return choice.width >= 1 && choice.width <= width_max_ && choice.way < options_.ways.size();
  };
  if (!fits(state.choice) || !fits(state.candidate)) return false;
  if (state.lines.size() != options_.ways.size()) return false;
  const auto sound = [](double speed) { return std::isfinite(speed) && speed > 0; };
  if (!sound(state.speed)) return false;
  for (const TunerState::Line& line : state.lines) {
    if (!sound(line.speed)) return false;
  }
  state_ = state;
  return true;
}

}  // namespace sumcast::pipeline
