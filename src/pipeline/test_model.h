// A model small enough to follow: each rank pulls the weights towards a point of its own, with
// noise, so that gradients differ between ranks and steps and depend on where they are computed.
#pragma once

#include <memory>
#include <vector>

#include "base/prng.h"
#include "pipeline/pipeline.h"
#include "pipeline/test_ranks.h"

namespace sumcast::pipeline::testing {

/// v = b v + g, w -= rate v.
class MomentumRule final : public UpdateRule {
 public:
  explicit MomentumRule(float momentum) : momentum_(momentum) {}
  size_t planes() const override { return 1; }
  bool accumulates() const override { return momentum_ > 0.0f; }
  void update(ConstParameters in, std::span<const float> gradient, UpdateTime at,
              Parameters out) const override {
    for (size_t i = 0; i < gradient.size(); ++i) {
      const float velocity = momentum_ * in.planes[0][i] + gradient[i];
      out.planes[0][i] = velocity;
      out.weights[i] = in.weights[i] - at.rate * velocity;
    }
  }

 private:
  float momentum_;
};

struct Pull {
  std::vector<float> weights;
  std::vector<float> gradient;
  uint32_t rank;

  explicit Pull(uint32_t rank_, size_t count = 40)
      : weights(count, 1.0f), gradient(count), rank(rank_) {}
  /// Computes the gradient of `step` at `weights`; returns the loss.
  float backward(uint64_t step) {
    Prng prng(step * 1000 + rank);
    float loss = 0;
    for (size_t i = 0; i < weights.size(); ++i) {
      const float away = weights[i] - static_cast<float>(i % 5) - static_cast<float>(rank);
      gradient[i] = away + static_cast<float>(prng.unit()) - 0.5f;
      loss += away * away;
    }
    return loss;
  }
};

/// Bits of the committed weights after each step.
struct History {
  std::vector<uint64_t> hashes;
  std::vector<float> weights;
  std::vector<StepReport> reports;
  std::optional<Error> error;
  size_t most_under_way = 0;
};

using Prepare = std::function<void(Pipeline&, uint64_t step, Pull&)>;

/// `steps` steps on each of `ranks` ranks; `before` is called ahead of each step.
inline std::vector<History> train(uint32_t ranks, uint64_t steps, const PipelineOptions& options,
                                  float momentum = 0.5f,
                                  const std::function<std::unique_ptr<Encoder>()>& encoder = {},
                                  const Prepare& before = {}) {
  std::vector<History> histories(ranks);
  const MomentumRule rule(momentum);
  run_ranks(ranks, [&](TestAverager& averager) {
    History& history = histories[averager.rank()];
    Pull pull(averager.rank());
    Pipeline pipeline(options, rule, averager, pull.weights, encoder ? encoder() : nullptr);
    for (uint64_t step = 0; step < steps; ++step) {
      if (before) before(pipeline, step, pull);
      const float loss = pull.backward(step);
      auto report = pipeline.step(pull.gradient, loss, 0.05f);
      if (!report) {
        history.error = report.error();
        return;
      }
      history.reports.push_back(*report);
      history.hashes.push_back(hash_of_bits(pipeline.committed()));
    }
    if (auto flushed = pipeline.flush(); !flushed) history.error = flushed.error();
    history.weights.assign(pull.weights.begin(), pull.weights.end());
    history.most_under_way = averager.most_under_way();
  });
  return histories;
}

}  // namespace sumcast::pipeline::testing
