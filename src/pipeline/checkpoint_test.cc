#include <gtest/gtest.h>

#include "pipeline/checkpoint_bytes.h"
#include "pipeline/test_model.h"

namespace sumcast::pipeline {
namespace {

using testing::MomentumRule;
using testing::Pull;
using testing::run_ranks;
using testing::TestAverager;

PipelineOptions everything() {
  PipelineOptions options;
  options.width = 3;
  options.forecast = Forecast::kLocalAndPrevious;
  options.compensation = Compensation::kAdaptive;
  options.correction = 0.3f;
  options.guard.emplace();
  options.fresh_from = 33;
  options.hash_every = 4;
  return options;
}

struct Outcome {
  std::vector<float> weights;
  std::vector<std::byte> checkpoint;
};

/// Trains to `steps`; saves after `save_at`; starts from `from` if it is not empty.
std::vector<Outcome> run(const PipelineOptions& options, uint64_t steps, uint64_t save_at,
                         const std::vector<Outcome>& from = {}, bool encodes = true) {
  std::vector<Outcome> outcomes(3);
  const MomentumRule rule(0.9f);
  run_ranks(3, [&](TestAverager& averager) {
    Outcome& outcome = outcomes[averager.rank()];
    Pull pull(averager.rank());
    Pipeline pipeline(options, rule, averager, pull.weights,
                      encodes ? make_top_k_encoder(0.2) : nullptr);
    if (!from.empty()) {
      const auto restored = pipeline.restore(from[averager.rank()].checkpoint);
      ASSERT_TRUE(restored.has_value()) << restored.error().what;
    }
    while (pipeline.steps() < steps) {
      const uint64_t step = pipeline.steps();
      const float loss = pull.backward(step);
      ASSERT_TRUE(pipeline.step(pull.gradient, loss, 0.02f).has_value());
      if (pipeline.steps() != save_at) continue;
      EXPECT_GT(pipeline.in_flight(), 0u);
      outcome.checkpoint = pipeline.save().value();
    }
    ASSERT_TRUE(pipeline.flush().has_value());
    outcome.weights.assign(pull.weights.begin(), pull.weights.end());
  });
  return outcomes;
}

TEST(Checkpoint, WithGradientsInFlightTheRunGoesOnBitByBit) {
  const auto whole = run(everything(), 30, 0);
  const auto saved = run(everything(), 30, 13);
  const auto resumed = run(everything(), 30, 0, saved);
  for (size_t rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(saved[rank].weights, whole[rank].weights);    // Saving changes nothing ...
    EXPECT_EQ(resumed[rank].weights, whole[rank].weights);  // ... and resuming neither.
  }
}

TEST(Checkpoint, AnotherRunsCheckpointIsRefusedByName) {
  const auto saved = run(everything(), 20, 13);
  const MomentumRule rule(0.9f);
  const auto refusal = [&](const PipelineOptions& options, size_t parameters,
                           std::unique_ptr<Encoder> encoder, uint32_t ranks) {
    std::vector<float> weights(parameters, 7.0f);
    BlockingAverager averager(0, ranks, {}, {});
    Pipeline pipeline(options, rule, averager, weights, std::move(encoder));
    const auto restored = pipeline.restore(saved[0].checkpoint);
    EXPECT_FALSE(restored.has_value());
    EXPECT_EQ(weights, std::vector<float>(parameters, 7.0f));
    return restored ? std::string() : restored.error().what;
  };
  EXPECT_NE(refusal(everything(), 41, make_top_k_encoder(0.2), 3)
                .find("it has parameters: 40, this run 41"),
            std::string::npos);
  PipelineOptions other = everything();
  other.width = 2;
  EXPECT_NE(refusal(other, 40, make_top_k_encoder(0.2), 3).find("it has width 3, this run 2"),
            std::string::npos);
  EXPECT_NE(
      refusal(everything(), 40, make_top_k_encoder(0.2), 4).find("it has ranks: 3, this run 4"),
      std::string::npos);
  EXPECT_NE(refusal(everything(), 40, nullptr, 3).find("encoder 'top-20%', this run ''"),
            std::string::npos);
}

TEST(Checkpoint, DamagedBytesAreAnErrorAndChangeNothing) {
  const auto saved = run(everything(), 14, 13);
  const MomentumRule rule(0.9f);
  const auto refused = [&](const std::vector<std::byte>& bytes) {
    std::vector<float> weights(40, 7.0f);
    BlockingAverager averager(0, 3, {}, {});
    Pipeline pipeline(everything(), rule, averager, weights, make_top_k_encoder(0.2));
    const bool failed = !pipeline.restore(bytes).has_value();
    return failed && weights == std::vector<float>(40, 7.0f) && pipeline.steps() == 0;
  };
  const std::vector<std::byte>& good = saved[0].checkpoint;
  for (size_t length = 0; length < good.size(); length += 97) {
    EXPECT_TRUE(refused({good.begin(), good.begin() + static_cast<ptrdiff_t>(length)})) << length;
  }
  for (size_t at = 0; at < good.size(); at += 61) {
    std::vector<std::byte> flipped = good;
    flipped[at] ^= std::byte{0x10};
    EXPECT_TRUE(refused(flipped)) << at;
  }
}

TEST(CheckpointBytes, ReadBackWhatWasWrittenAndNothingElse) {
  CheckpointWriter out;
  out.number(7);
  out.real(-0.5);
  out.text("abc");
  out.floats(std::vector<float>{1, 2, 3});
  const auto bytes = std::move(out).finish();
  CheckpointReader in(bytes);
  EXPECT_EQ(in.number(), 7u);
  EXPECT_EQ(in.real(), -0.5);
  EXPECT_EQ(in.text(), "abc");
  EXPECT_EQ(in.floats(3), (std::vector<float>{1, 2, 3}));
  EXPECT_TRUE(in.finish().has_value());
  CheckpointReader less(bytes);
  less.number();
  EXPECT_FALSE(less.finish().has_value());
  CheckpointReader wrong(bytes);
  wrong.number();
  wrong.real();
  wrong.text();
  EXPECT_TRUE(wrong.floats(4).empty());
  EXPECT_FALSE(wrong.finish().has_value());
}

}  // namespace
}  // namespace sumcast::pipeline
