// Saving a pipeline with gradients in flight, and taking it up again.
//
// The gradients in flight are waited for and kept as the means that they became, beside what
// forecasts and remedies need of them; whoever goes on from here finds them arrived.
#include <fmt/format.h>

#include "base/assert.h"
#include "pipeline/checkpoint_bytes.h"
#include "pipeline/pipeline.h"

namespace sumcast::pipeline {
namespace {

constexpr uint64_t kMagic = 0x32'65'6e'69'6c'65'70'69;  // "ipeline2"

/// What must be equal for a checkpoint to mean the same; a mismatch is named.
struct Fingerprint {
  uint64_t parameters = 0, planes = 0, width = 0, forecast = 0, compensation = 0, late = 0;
  uint64_t guarded = 0, ways = 0, ranks = 0, rank = 0;
  std::string encoder;
};

void write(CheckpointWriter& out, const Fingerprint& f) {
  for (const uint64_t field : {f.parameters, f.planes, f.width, f.forecast, f.compensation, f.late,
                               f.guarded, f.ways, f.ranks, f.rank}) {
    out.number(field);
  }
  out.text(f.encoder);
}

void check(CheckpointReader& in, const Fingerprint& f) {
  const auto same = [&](const char* what, uint64_t ours) {
    const uint64_t theirs = in.number();
    if (theirs != ours && !in.failed()) {
      in.refuse(fmt::format("it has {} {}, this run {}", what, theirs, ours));
    }
  };
  same("parameters:", f.parameters);
  same("planes of optimiser state:", f.planes);
  same("width", f.width);
  same("forecast", f.forecast);
  same("compensation", f.compensation);
  same("late parameters:", f.late);
  same("guards:", f.guarded);
  same("ways to choose from:", f.ways);
  same("ranks:", f.ranks);
  same("rank", f.rank);
  if (const std::string encoder = in.text(); encoder != f.encoder) {
    in.refuse(fmt::format("it has the encoder '{}', this run '{}'", encoder, f.encoder));
  }
}

void write(CheckpointWriter& out, bool tunes, const Retuner::State& state) {
  const TunerState& t = state.tuner;
  for (const uint64_t field :
       {uint64_t{tunes}, uint64_t{state.skip}, uint64_t{state.left}, uint64_t{t.choice.width},
        uint64_t{t.choice.way}, uint64_t{t.candidate.width}, uint64_t{t.candidate.way},
        uint64_t{t.agreed}, uint64_t{t.unseen}, t.windows, uint64_t{t.bare}}) {
    out.number(field);
  }
  for (const double field : {t.compute_s, t.speed, t.stolen_s}) out.real(field);
  for (const TunerState::Line& line : t.lines) {
    out.number(line.measured);
    out.number(line.settled);
    out.number(line.late_width);
    for (const double field : {line.latency_s, line.occupancy_s, line.speed}) out.real(field);
  }
}

void read(CheckpointReader& in, size_t ways, bool& tunes, Retuner::State& state) {
  TunerState& t = state.tuner;
  tunes = in.number() != 0;
  for (uint32_t* field : {&state.skip, &state.left, &t.choice.width, &t.choice.way,
                          &t.candidate.width, &t.candidate.way, &t.agreed, &t.unseen}) {
    *field = static_cast<uint32_t>(in.number());
  }
  t.windows = in.number();
  t.bare = in.number() != 0;
  for (double* field : {&t.compute_s, &t.speed, &t.stolen_s}) *field = in.real();
  t.lines.resize(ways);
  for (TunerState::Line& line : t.lines) {
    line.measured = in.number() != 0;
    line.settled = in.number() != 0;
    line.late_width = static_cast<uint32_t>(in.number());
    for (double* field : {&line.latency_s, &line.occupancy_s, &line.speed}) *field = in.real();
  }
}

}  // namespace

Result<std::vector<std::byte>> Pipeline::save() {
  for (uint32_t i = 0; i < in_flight_; ++i) {
    if (auto arrived = arrive(next_ - in_flight_ + i); !arrived) {
      return fail(arrived.error().within("checkpoint"));
    }
  }
  CheckpointWriter out;
  out.number(kMagic);
  write(out, {weights_.size(), planes_.size(), options_.width, static_cast<uint64_t>(forecast_),
              static_cast<uint64_t>(options_.compensation), late_count(), guard_ ? 1u : 0u,
              options_.tune ? options_.tune->ways.size() : 0, averager_.ranks(), averager_.rank(),
              encoder_ ? encoder_->name() : ""});
  for (const uint64_t field : {steps_, next_, uint64_t{in_flight_}, last_ ? *last_ + 1 : 0,
                               uint64_t{width_}, count_late_, count_fresh_}) {
    out.number(field);
  }
  out.floats(committed());
  for (const std::vector<float>& plane : planes_) out.floats(plane);
  if (feedback_) out.floats(feedback_->residual());
  if (guard_) {
    const GuardState& g = guard_->state();
    for (const double field : {g.loss, g.lowest, g.alignment}) out.real(field);
    for (const uint64_t field : {g.seen, g.bad}) out.number(field);
  }
  if (retuner_) write(out, tunes_, retuner_->state());
  const uint64_t oldest = next_ - in_flight_;
  for (uint64_t index = last_ ? *last_ : oldest; index < next_; ++index) {
    const Flight& kept = flight(index);
    out.real(kept.rate);
    out.number(kept.step);
    out.number(kept.hashed ? 1 : 0);
    out.number(kept.facts.size());
    for (const double fact : kept.facts) out.real(fact);
    // A mean that was reduced in the model's own buffer is not needed any more.
    out.number(kept.storage.empty() ? 0 : 1);
    if (!kept.storage.empty()) out.floats(kept.storage);
    out.number(kept.own.empty() ? 0 : 1);
    if (!kept.own.empty()) out.floats(kept.own);
    out.number(kept.then.empty() ? 0 : 1);
    if (!kept.then.empty()) out.floats(kept.then);
  }
  return std::move(out).finish();
}

Result<void> Pipeline::restore(std::span<const std::byte> bytes) {
  SUMCAST_ASSERT(steps_ == 0 && next_ == 0);
  CheckpointReader in(bytes);
  if (in.number() != kMagic) in.refuse("it was not written by a pipeline of this version");
  check(in, {weights_.size(), planes_.size(), options_.width, static_cast<uint64_t>(forecast_),
             static_cast<uint64_t>(options_.compensation), late_count(), guard_ ? 1u : 0u,
             options_.tune ? options_.tune->ways.size() : 0, averager_.ranks(), averager_.rank(),
             encoder_ ? encoder_->name() : ""});
  const uint64_t steps = in.number(), next = in.number(), in_flight = in.number();
  const uint64_t last = in.number(), width = in.number();
  const uint64_t count_late = in.number(), count_fresh = in.number();
  const uint64_t oldest = next - in_flight;
  const uint64_t first = last > 0 ? last - 1 : oldest;
  if (in_flight > next || in_flight >= flights_.size() || width < 1 || width > options_.width ||
      (last > 0 && (last > next || last - 1 + in_flight + 1 != next))) {
    in.refuse("its numbers contradict each other");
  }
  const size_t n = weights_.size();
  std::vector<float> weights = in.floats(n);
  std::vector<std::vector<float>> planes;
  for (size_t p = 0; p < planes_.size(); ++p) planes.push_back(in.floats(n));
  std::vector<float> residual;
  if (feedback_) residual = in.floats(n);
  GuardState guarding;
  if (guard_) {
    for (double* field : {&guarding.loss, &guarding.lowest, &guarding.alignment})
      *field = in.real();
    guarding.seen = static_cast<uint32_t>(in.number());
    guarding.bad = static_cast<uint32_t>(in.number());
  }
  bool tunes = false;
  Retuner::State tuning;
  if (retuner_) read(in, options_.tune->ways.size(), tunes, tuning);
  std::vector<Flight> flights;
  for (uint64_t index = first; index < next && !in.failed(); ++index) {
    Flight& kept = flights.emplace_back();
    kept.rate = static_cast<float>(in.real());
    kept.step = in.number();
    kept.hashed = in.number() != 0;
    const uint64_t facts = in.number();
    const uint64_t others = kept.hashed ? 1 + kWitnesses : 1;
    const bool wants_facts = kept.hashed || guard_.has_value();
    if ((facts == 0 && wants_facts) ||
        (facts != 0 && facts != others && facts != others + kStepTimes * averager_.ranks())) {
      in.refuse("its numbers contradict each other");
    }
    for (uint64_t i = 0; i < facts && !in.failed(); ++i) kept.facts.push_back(in.real());
    if (in.number() != 0) kept.storage = in.floats(n);
    if (in.number() != 0) kept.own = in.floats(n);
    if (in.number() != 0) kept.then = in.floats(n);
    const bool under_way = index >= next - in_flight;
    if ((under_way && late_count() > 0 && kept.storage.empty()) ||
        (needs_own(forecast_) && kept.own.empty())) {
      in.refuse("gradients under way are missing");
    }
  }
  if (auto read = in.finish(); !read) return read;
  if (retuner_ && !retuner_->restore(tuning)) {
    return fail(ErrorCode::kInvalidArgument,
                "this checkpoint cannot be taken up: what it says of the width is not possible");
  }

  steps_ = steps;
  next_ = next;
  in_flight_ = static_cast<uint32_t>(in_flight);
  if (last > 0) last_ = last - 1;
  width_ = static_cast<uint32_t>(width);
  count_late_ = count_late;
  count_fresh_ = count_fresh;
  std::copy(weights.begin(), weights.end(), weights_.begin());
  if (!committed_.empty()) committed_ = std::move(weights);
  planes_ = std::move(planes);
  if (feedback_) std::copy(residual.begin(), residual.end(), feedback_->residual().begin());
  if (guard_) guard_->restore(guarding);
  tunes_ = tunes;
  if (retuner_) averager_.choose(retuner_->choice().way);
  for (size_t i = 0; i < flights.size(); ++i) {
    Flight& here = flight(first + i);
    here = std::move(flights[i]);
    here.mean = here.storage;
    here.arrived = true;
  }
  forecast_weights();
  return {};
}

}  // namespace sumcast::pipeline
