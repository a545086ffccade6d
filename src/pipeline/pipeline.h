// Training with K steps under way: a gradient travels while the next ones are computed.
//
// One object per rank, between a model and an optimiser's rule. It knows parameters as one run of
// floats, not as layers, and the other ranks as an Averager. The order of a step is
//
//   step(gradient, loss, rate)     gradient and loss as computed at weights()
//     encode, begin the mean       the buffer is a copy: the next backward would overwrite it
//     finish the oldest mean       if K are under way now; then it is applied
//     forecast                     weights() become the point for the next forward pass
//
// Rules that hold on all ranks: committed weights are the same bits (compared every so often); the
// pipeline's first step has no gradient to apply and updates nothing; whatever depends on values
// (guard, clipping, skipping) is decided on means and sums over ranks; a forecast leaves no trace
// in weights, state or counts. After an error the object is of no use any more: the way on is a
// checkpoint in a new one. One thread.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "pipeline/averager.h"
#include "pipeline/encoder.h"
#include "pipeline/guard.h"
#include "pipeline/options.h"
#include "pipeline/retuner.h"
#include "pipeline/update_rule.h"
#include "pipeline/weights_hash.h"

namespace sumcast::pipeline {

/// What one step did to the committed weights.
struct StepReport {
  uint32_t updates = 0;                  ///< Gradients applied: 0 in the first pipelined step.
  uint32_t skipped = 0;                  ///< Means that were not finite and were left out.
  std::optional<std::string> fell_back;  ///< The guard's reason, in the step in which it acted.
  std::optional<std::string> retuned;    ///< The tuner's, likewise; width() and way() are new.
};

class Pipeline {
 public:
  /// @param options   valid; equal on all ranks.
  /// @param rule, averager  outlive this object.
  /// @param weights   f32[n], the model's parameters, equal on all ranks; the model reads them
  ///                  there. Only this object writes them from now on.
  /// @param encoder   null: gradients are sent as they are.
  /// @param now       needed if options.tune: a monotonic clock. The averager has as many ways.
  Pipeline(const PipelineOptions& options, const UpdateRule& rule, Averager& averager,
           std::span<float> weights, std::unique_ptr<Encoder> encoder = nullptr, ClockFn now = {});
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;

  /// Takes the gradient f32[n] of this rank's mean loss, which may be overwritten.
  /// @param rate  learning rate with which this gradient will be applied, now or later.
  Result<StepReport> step(std::span<float> gradient, float loss, float rate);

  /// Applies all that is under way, in order, and leaves the committed weights in the model: before
  /// evaluation, at the end of an epoch, and before a change that must be exact. All ranks at the
  /// same step.
  Result<StepReport> flush();
  /// Flushes and goes on with another width, at most the one it was made with; nothing chooses it
  /// any more.
  Result<StepReport> set_width(uint32_t width);

  /// The width in force: 1 during warm-up and after the guard has acted.
  uint32_t width() const;
  /// The averager's way in force.
  uint32_t way() const { return retuner_ ? retuner_->choice().way : 0; }
  uint32_t in_flight() const { return in_flight_; }
  uint64_t steps() const { return steps_; }
  /// Updates of the committed weights so far.
  uint64_t updates() const { return count_late_; }
  /// Equal on all ranks; valid until the next call.
  std::span<const float> committed() const;
  /// The optimiser's state, plane by plane.
  std::span<const float> plane(size_t index) const { return planes_[index]; }

  /// Everything of this rank, gradients in flight included: waits for them but does not apply them,
  /// so that a run with a checkpoint and one without go on alike, bit by bit.
  Result<std::vector<std::byte>> save();
  /// Into an object made with the same options, rule, encoder and number of ranks, before its first
  /// step. kInvalidArgument, and nothing changed, if `bytes` is no such checkpoint.
  Result<void> restore(std::span<const std::byte> bytes);

 private:
  /// One gradient from its step to its update; what follows on it until it is used again.
  struct Flight {
    std::vector<float> storage;
    std::span<float> mean;    ///< `storage`, or the model's own buffer if nothing is delayed.
    std::vector<float> own;   ///< What this rank contributed; if forecasts need it.
    std::vector<float> then;  ///< Committed weights of its step; if compensation needs them.
    /// Sums over ranks: loss, witnesses, times. Empty: there are none in this step.
    std::vector<double> facts;
    bool hashed = false;  ///< Whether witnesses are among them.
    Instant begun;        ///< If it is timed.
    float rate = 0.0f;
    uint64_t step = 0;
    bool arrived = false;

    std::span<const double> witnesses() const;
    std::span<const double> times() const;
  };

  /// An update of the late weights.
  struct Update {
    std::span<const float> gradient;
    UpdateTime at;
  };

  Flight& flight(uint64_t index) { return flights_[index % flights_.size()]; }
  uint32_t mean_slot(uint64_t index) const {
    return static_cast<uint32_t>(index % flights_.size());
  }
  size_t late_count() const { return std::min(options_.fresh_from, weights_.size()); }
  bool has_fresh() const { return late_count() < weights_.size(); }

  Result<void> launch(std::span<float> gradient, float loss, float rate);
  Result<void> arrive(uint64_t index);
  /// Applies the oldest gradient in flight.
  Result<void> apply_oldest(StepReport& report);
  Result<void> apply_fresh(Flight& newest, StepReport& report);
  Result<void> compare_weights(const Flight& flight) const;
  void consult_guard(const Flight& flight, StepReport& report);
  void consult_tuner(const Flight& flight, StepReport& report);
  Result<void> begin_facts(Flight& newest, float loss);
  std::span<const float> remedied(const Flight& flight, bool delayed);
  bool prepare(std::span<const float>& gradient, StepReport& report);
  void commit(size_t first, std::span<const float> gradient, UpdateTime at);
  /// Commits what was put off.
  void settle();
  void forecast_weights();
  void estimate(const Flight& flight, size_t first, std::span<float> out) const;
  Parameters committed_at(size_t first);

  PipelineOptions options_;
  const UpdateRule& rule_;
  Averager& averager_;
  std::unique_ptr<Encoder> encoder_;
  std::optional<Feedback> feedback_;
  std::optional<Guard> guard_;
  std::optional<Retuner> retuner_;
  bool tunes_ = false;     ///< Until the guard or the caller has set a width.
  bool draining_ = false;  ///< A change of width: all that is under way is applied first.
  Forecast forecast_ = Forecast::kNone;  ///< Never kAuto.
  /// Is committed tile by tile with the forecast, which reads the same weights and state. None
  /// between calls.
  std::optional<Update> put_off_;

  std::span<float> weights_;      ///< The model's: committed, or forecast.
  std::vector<float> committed_;  ///< If weights are forecast; else weights_ are committed.
  std::vector<std::vector<float>> planes_;
  std::vector<std::vector<float>> scratch_planes_;  ///< A forecast's state, to be forgotten.
  std::vector<float> estimate_, effective_, fresh_;

  std::vector<Flight> flights_;  ///< One more than the width: the last that arrived is kept.
  uint64_t next_ = 0;            ///< Index of the next gradient; flight(next_ - 1) is the newest.
  uint32_t in_flight_ = 0;
  std::optional<uint64_t> last_;  ///< Index of the gradient that was applied last.
  uint32_t width_ = 1;            ///< Wished, and after the guard's verdict 1.
  uint64_t warmup_ = 0;
  uint64_t steps_ = 0;
  uint64_t count_late_ = 0, count_fresh_ = 0;  ///< Updates of late and of fresh parameters.
};

}  // namespace sumcast::pipeline
