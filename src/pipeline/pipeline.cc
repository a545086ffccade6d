#include "pipeline/pipeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/assert.h"
#include "pipeline/values.h"

namespace sumcast::pipeline {
namespace {

/// The averager's slot for fresh gradients, beside those of the flights.
constexpr uint32_t kFreshSlot = Averager::kSlots - 1;
static_assert(kWidthMax + 1 < kFreshSlot);

/// Parameters that are forecast at a time: a handful of arrays of it fit the first-level cache.
constexpr size_t kTile = 1024;

}  // namespace

Pipeline::Pipeline(const PipelineOptions& options, const UpdateRule& rule, Averager& averager,
                   std::span<float> weights, std::unique_ptr<Encoder> encoder, ClockFn now)
    : options_(options),
      rule_(rule),
      averager_(averager),
      encoder_(std::move(encoder)),
      weights_(weights),
      flights_(options.width + 1),
      width_(options.width),
      warmup_(options.warmup_steps) {
  SUMCAST_ASSERT(options.validate().empty());
  SUMCAST_ASSERT(rule.planes() <= kPlanesMax);
  if (options.width > 1) forecast_ = options.forecast;
  if (forecast_ == Forecast::kAuto) {
    forecast_ = rule.accumulates() ? Forecast::kLocal : Forecast::kNone;
  }
  planes_.assign(rule.planes(), std::vector<float>(weights.size(), 0.0f));
  if (encoder_ && encoder_->wants_feedback()) feedback_.emplace(weights.size());
  if (options.guard) guard_.emplace(*options.guard);
  if (options.tune) {
    SUMCAST_ASSERT(options.tune->ways.size() == averager.ways());
    retuner_.emplace(*options.tune, options.width, averager.rank(), averager.ranks(),
                     static_cast<double>(late_count() * sizeof(float)), std::move(now));
    tunes_ = true;
    width_ = 1;
    averager_.choose(0);
  }
  if (has_fresh()) fresh_.resize(weights.size() - late_count());
  if (forecast_ != Forecast::kNone) {
    warmup_ = std::max<uint64_t>(warmup_, 1);
    committed_.assign(weights.begin(), weights.end());
    scratch_planes_.assign(rule.planes(), std::vector<float>(kTile));
    estimate_.resize(kTile);
  }
}

std::span<const double> Pipeline::Flight::witnesses() const {
  return std::span(facts).subspan(1, hashed ? kWitnesses : 0);
}

std::span<const double> Pipeline::Flight::times() const {
  const size_t before = facts.empty() ? 0 : 1 + (hashed ? kWitnesses : 0);
  return std::span(facts).subspan(before);
}

uint32_t Pipeline::width() const { return steps_ < warmup_ || draining_ ? 1 : width_; }

std::span<const float> Pipeline::committed() const {
  return committed_.empty() ? std::span<const float>(weights_) : std::span(committed_);
}

Parameters Pipeline::committed_at(size_t first) {
  Parameters at;
  at.weights = (committed_.empty() ? weights_.data() : committed_.data()) + first;
  for (size_t p = 0; p < planes_.size(); ++p) at.planes[p] = planes_[p].data() + first;
  return at;
}

Result<StepReport> Pipeline::step(std::span<float> gradient, float loss, float rate) {
  SUMCAST_ASSERT(gradient.size() == weights_.size());
  StepReport report;
  const auto within = [&](const Error& error) {
    return fail(error.within(fmt::format("step {}", steps_ + 1)));
  };
  if (auto launched = launch(gradient, loss, rate); !launched) return within(launched.error());
  if (has_fresh()) {
    if (auto done = apply_fresh(flight(next_ - 1), report); !done) return within(done.error());
  }
  // Guard and tuner may change the width while gradients are applied: then all of them are.
  while (in_flight_ >= width()) {
    if (auto done = apply_oldest(report); !done) return within(done.error());
  }
  const bool counts = steps_ >= warmup_;
  draining_ = false;
  ++steps_;
  forecast_weights();
  if (tunes_) retuner_->step_ended(counts);
  return report;
}

Result<StepReport> Pipeline::flush() {
  StepReport report;
  while (in_flight_ > 0) {
    const Flight& oldest = flight(next_ - in_flight_);
    const Instant begun = oldest.begun;
    const bool last = in_flight_ == 1 && !oldest.arrived;
    // Before it is applied: that may change the way, and this was the one before.
    if (auto done = arrive(next_ - in_flight_); !done) return fail(done.error().within("flush"));
    if (last && tunes_) retuner_->drained(begun);
    if (auto done = apply_oldest(report); !done) return fail(done.error().within("flush"));
  }
  draining_ = false;
  forecast_weights();
  if (tunes_) retuner_->interrupted();
  return report;
}

Result<StepReport> Pipeline::set_width(uint32_t width) {
  if (width < 1 || width > options_.width) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("width must be 1 to {}, with which the pipeline was made, not {}",
                            options_.width, width));
  }
  Result<StepReport> flushed = flush();
  if (!flushed) return flushed;
  width_ = width;
  tunes_ = false;
  return flushed;
}

Result<void> Pipeline::launch(std::span<float> gradient, float loss, float rate) {
  const uint64_t index = next_++;
  ++in_flight_;
  Flight& newest = flight(index);
  newest.rate = rate;
  newest.step = steps_;
  newest.arrived = false;
  // Nothing will read the mean after this step if no step is ever delayed: no copy then.
  const bool in_place = options_.width == 1 && !guard_;
  if (tunes_) newest.begun = retuner_->now();
  std::span<float> values = gradient;
  newest.mean = gradient;
  if (!in_place) {
    // A kept gradient is what travels: the mean has other memory then, and one copy does.
    std::vector<float>& copy = needs_own(forecast_) ? newest.own : newest.storage;
    copy.assign(gradient.begin(), gradient.end());
    newest.storage.resize(gradient.size());
    values = copy;
    newest.mean = newest.storage;
  }
  if (feedback_) {
    feedback_->encode(*encoder_, steps_, averager_.rank(), values);
  } else if (encoder_) {
    encoder_->encode(values, steps_, averager_.rank(), values);
  }
  const bool compensates = options_.compensation != Compensation::kNone && options_.width > 1;
  if (compensates) newest.then.assign(committed().begin(), committed().end());

  // Fresh gradients go first: operations stream in call order.
  const size_t late = late_count();
  if (has_fresh()) {
    if (auto begun =
            averager_.begin_mean(kFreshSlot, values.subspan(late), newest.mean.subspan(late));
        !begun) {
      return begun;
    }
  }
  if (late > 0) {
    if (auto begun =
            averager_.begin_mean(mean_slot(index), values.first(late), newest.mean.first(late));
        !begun) {
      return begun;
    }
  }
  return begin_facts(newest, loss);
}

Result<void> Pipeline::begin_facts(Flight& newest, float loss) {
  newest.facts.clear();
  newest.hashed = options_.hash_every > 0 && steps_ % options_.hash_every == 0;
  std::vector<double> times;
  if (tunes_) times = retuner_->due();
  if (!guard_ && !newest.hashed && times.empty()) return {};
  newest.facts.push_back(loss);
  if (newest.hashed) {
    const auto witnesses = witnesses_of(hash_of_bits(committed()));
    newest.facts.insert(newest.facts.end(), witnesses.begin(), witnesses.end());
  }
  newest.facts.insert(newest.facts.end(), times.begin(), times.end());
  return averager_.begin_sum(mean_slot(next_ - 1), newest.facts);
}

Result<void> Pipeline::arrive(uint64_t index) {
  Flight& due = flight(index);
  if (due.arrived) return {};
  const auto wait = [&]() -> Result<void> {
    if (late_count() > 0) {
      if (auto done = averager_.finish_mean(mean_slot(index)); !done) return done;
    }
    return due.facts.empty() ? Result<void>() : averager_.finish_sum(mean_slot(index));
  };
  auto done = tunes_ ? retuner_->waiting(wait) : wait();
  due.arrived = done.has_value();
  return done;
}

Result<void> Pipeline::apply_oldest(StepReport& report) {
  settle();
  const uint64_t index = next_ - in_flight_;
  if (auto arrived = arrive(index); !arrived) return arrived;
  Flight& due = flight(index);
  if (due.hashed) {
    if (auto same = compare_weights(due); !same) return same;
  }
  if (guard_) consult_guard(due, report);
  if (tunes_ && !due.times().empty()) consult_tuner(due, report);
  std::span<const float> gradient = remedied(due, due.step < steps_);
  if (prepare(gradient, report)) {
    put_off_ = {gradient, {due.rate, ++count_late_}};
    ++report.updates;
  }
  --in_flight_;
  last_ = index;
  return {};
}

Result<void> Pipeline::apply_fresh(Flight& newest, StepReport& report) {
  if (auto done = averager_.finish_mean(kFreshSlot); !done) return done;
  std::copy(newest.mean.begin() + static_cast<ptrdiff_t>(late_count()), newest.mean.end(),
            fresh_.begin());
  std::span<const float> gradient = fresh_;
  if (prepare(gradient, report)) commit(late_count(), gradient, {newest.rate, ++count_fresh_});
  return {};
}

Result<void> Pipeline::compare_weights(const Flight& due) const {
  if (witnesses_agree(due.witnesses().first<kWitnesses>(), averager_.ranks())) return {};
  return fail(ErrorCode::kInternal,
              fmt::format("the ranks' weights differ before step {}: a rank has drifted, its "
                          "results are worth nothing; go back to a checkpoint",
                          due.step + 1));
}

void Pipeline::consult_guard(const Flight& due, StepReport& report) {
  double along = 0, now = 0, before = 0;
  if (last_) {
    const float *const a = due.mean.data(), *const b = flight(*last_).mean.data();
    along = dot(a, b, late_count());
    now = dot(a, a, late_count());
    before = dot(b, b, late_count());
  }
  Observation seen;
  seen.loss = due.facts[0] / averager_.ranks();
  seen.alignment = now > 0 && before > 0 ? along / std::sqrt(now * before) : along;
  const auto verdict = guard_->observe(seen);
  if (!verdict || (width_ == 1 && !tunes_)) return;
  width_ = 1;
  tunes_ = false;
  report.fell_back = *verdict;
}

void Pipeline::consult_tuner(const Flight& due, StepReport& report) {
  report.retuned = retuner_->observe(due.times());
  if (!report.retuned) return;
  const Choice choice = retuner_->choice();
  draining_ = choice.width != width_;
  width_ = choice.width;
  averager_.choose(choice.way);
}

/// The gradient to apply for `due`: its mean, or a corrected copy.
std::span<const float> Pipeline::remedied(const Flight& due, bool delayed) {
  const std::span<const float> mean = due.mean.first(late_count());
  const bool corrects = options_.correction > 0.0f && last_.has_value();
  const bool compensates = !due.then.empty() && options_.compensation != Compensation::kNone;
  if (!delayed || (!corrects && !compensates)) return mean;
  effective_.assign(mean.begin(), mean.end());
  float* const to = effective_.data();
  if (corrects) {
    const float* const last = flight(*last_).mean.data();
    const float strength = options_.correction;
#pragma GCC ivdep
    for (size_t i = 0; i < mean.size(); ++i) to[i] += strength * (mean[i] - last[i]);
  }
  if (compensates) {
    constexpr float kEpsilon = 1e-12f;
    const float *const now = committed().data(), *const then = due.then.data();
    const float strength = options_.compensation_strength;
    const bool is_plain = options_.compensation == Compensation::kPlain;
#pragma GCC ivdep
    for (size_t i = 0; i < mean.size(); ++i) {
      const float square = mean[i] * mean[i];
      const float curvature = is_plain ? square : square / std::sqrt(square + kEpsilon);
      to[i] += strength * curvature * (now[i] - then[i]);
    }
  }
  return effective_;
}

/// Clips the gradient; false if it is not to be applied.
bool Pipeline::prepare(std::span<const float>& gradient, StepReport& report) {
  if (options_.clip_norm <= 0.0f && !options_.skip_non_finite) return true;
  const double squares = dot(gradient.data(), gradient.data(), gradient.size());
  if (options_.skip_non_finite && !std::isfinite(squares)) {
    ++report.skipped;
    return false;
  }
  const double norm = std::sqrt(squares);
  if (options_.clip_norm <= 0.0f || !(norm > options_.clip_norm)) return true;
  const auto factor = static_cast<float>(options_.clip_norm / norm);
  if (gradient.data() != effective_.data()) effective_.assign(gradient.begin(), gradient.end());
  for (float& value : effective_) value *= factor;
  gradient = effective_;
  return true;
}

void Pipeline::commit(size_t first, std::span<const float> gradient, UpdateTime at) {
  const Parameters here = committed_at(first);
  ConstParameters from{here.weights, {}};
  for (size_t p = 0; p < planes_.size(); ++p) from.planes[p] = here.planes[p];
  rule_.update(from, gradient, at, here);
}

void Pipeline::settle() {
  if (put_off_) commit(0, put_off_->gradient, put_off_->at);
  put_off_.reset();
}

/// Leaves in the model's weights the point for the next forward pass. Works through tiles that stay
/// in the cache: for each, the update that was put off, and one estimate and one run of the rule
/// per gradient in flight.
void Pipeline::forecast_weights() {
  const size_t late = in_flight_ > 0 ? late_count() : 0;
  if (forecast_ == Forecast::kNone || late == 0) settle();
  if (forecast_ == Forecast::kNone) return;
  for (size_t first = 0; first < late; first += kTile) {
    const size_t count = std::min(kTile, late - first);
    if (put_off_) commit(first, put_off_->gradient.subspan(first, count), put_off_->at);
    const Parameters real = committed_at(first);
    ConstParameters from{real.weights, {}};
    Parameters to{weights_.data() + first, {}};
    for (size_t p = 0; p < planes_.size(); ++p) {
      from.planes[p] = real.planes[p];
      to.planes[p] = scratch_planes_[p].data();
    }
    for (uint32_t i = 0; i < in_flight_; ++i) {
      const Flight& under_way = flight(next_ - in_flight_ + i);
      const std::span<float> estimated = std::span(estimate_).first(count);
      estimate(under_way, first, estimated);
      if (options_.skip_non_finite) {
        // Such a mean will not be applied; a forecast with it would spoil all gradients to come.
        for (float& value : estimated) value = finite_or_zero(value);
      }
      rule_.update(from, estimated, {under_way.rate, count_late_ + 1 + i}, to);
      from.weights = to.weights;
      for (size_t p = 0; p < planes_.size(); ++p) from.planes[p] = to.planes[p];
    }
  }
  put_off_.reset();
  std::copy(committed_.begin() + static_cast<ptrdiff_t>(late), committed_.end(),
            weights_.begin() + static_cast<ptrdiff_t>(late));
}

/// Of the mean that is under way, for the parameters from `first` on.
void Pipeline::estimate(const Flight& under_way, size_t first, std::span<float> out) const {
  const Flight* const last = last_ ? &flights_[*last_ % flights_.size()] : nullptr;
  const float* const own = under_way.own.empty() ? nullptr : under_way.own.data() + first;
  if (forecast_ == Forecast::kLocal || last == nullptr) {
    // Without a mean yet the own gradient is all there is.
    if (own != nullptr) {
      std::copy_n(own, out.size(), out.begin());
    } else {
      std::fill(out.begin(), out.end(), 0.0f);
    }
    return;
  }
  const float* const mean = last->mean.data() + first;
  if (forecast_ == Forecast::kPrevious) {
    std::copy_n(mean, out.size(), out.begin());
    return;
  }
  const float* const then = last->own.data() + first;
  const float share = 1.0f / static_cast<float>(averager_.ranks());
  for (size_t i = 0; i < out.size(); ++i) out[i] = mean[i] + share * (own[i] - then[i]);
}

}  // namespace sumcast::pipeline
