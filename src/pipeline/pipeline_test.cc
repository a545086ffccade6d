#include "pipeline/pipeline.h"

#include <gtest/gtest.h>

#include <cmath>

#include "pipeline/test_model.h"

namespace sumcast::pipeline {
namespace {

using testing::History;
using testing::MomentumRule;
using testing::Pull;
using testing::train;

/// The same training by hand, one process that knows all ranks: w(t) takes the gradient of step
/// t - K + 1, which was computed at the weights of its own step.
std::vector<float> by_hand(uint32_t ranks, uint64_t steps, uint32_t width, uint64_t warmup,
                           float momentum = 0.5f) {
  std::vector<Pull> pulls;
  for (uint32_t r = 0; r < ranks; ++r) pulls.emplace_back(r);
  std::vector<float> velocity(pulls[0].weights.size());
  std::vector<std::vector<float>> waiting;
  const auto apply = [&] {
    for (size_t i = 0; i < velocity.size(); ++i) {
      velocity[i] = momentum * velocity[i] + waiting.front()[i];
      const float weight = pulls[0].weights[i] - 0.05f * velocity[i];
      for (Pull& pull : pulls) pull.weights[i] = weight;
    }
    waiting.erase(waiting.begin());
  };
  for (uint64_t step = 0; step < steps; ++step) {
    std::vector<double> sum(velocity.size());
    for (Pull& pull : pulls) {
      pull.backward(step);
      for (size_t i = 0; i < sum.size(); ++i) sum[i] += pull.gradient[i];
    }
    std::vector<float> mean(sum.size());
    for (size_t i = 0; i < sum.size(); ++i) mean[i] = static_cast<float>(sum[i] / ranks);
    waiting.push_back(mean);
    while (waiting.size() >= (step < warmup ? 1 : width)) apply();
  }
  while (!waiting.empty()) apply();
  return pulls[0].weights;
}

PipelineOptions plain(uint32_t width) {
  PipelineOptions options;
  options.width = width;
  options.forecast = Forecast::kNone;
  options.hash_every = 3;
  return options;
}

void expect_alike(const std::vector<History>& ranks) {
  for (const History& rank : ranks) {
    ASSERT_FALSE(rank.error.has_value()) << rank.error->what;
    EXPECT_EQ(rank.hashes, ranks[0].hashes);
    EXPECT_EQ(rank.weights, ranks[0].weights);
  }
}

TEST(Pipeline, EveryWidthAppliesEveryGradientItsDelayLate) {
  for (const uint32_t width : {1u, 2u, 3u, 4u}) {
    for (const uint64_t warmup : {0u, 2u}) {
      PipelineOptions options = plain(width);
      options.warmup_steps = warmup;
      const auto ranks = train(3, 20, options);
      expect_alike(ranks);
      EXPECT_EQ(ranks[0].weights, by_hand(3, 20, width, warmup)) << "K = " << width;
      EXPECT_EQ(ranks[0].most_under_way, width);
    }
  }
}

TEST(Pipeline, TheFirstPipelinedStepUpdatesNothing) {
  PipelineOptions options = plain(2);
  options.warmup_steps = 3;
  const auto ranks = train(2, 8, options, 0.9f);
  ASSERT_EQ(ranks[0].reports.size(), 8u);
  for (size_t step = 0; step < 8; ++step) {
    EXPECT_EQ(ranks[0].reports[step].updates, step == 3 ? 0u : 1u);
  }
  // Zeros in a gradient's place would have moved the weights on by momentum.
  EXPECT_EQ(ranks[0].hashes[3], ranks[0].hashes[2]);
}

TEST(Pipeline, CommittedWeightsAreTheSameBitsWhateverTheRemedy) {
  for (const Forecast forecast :
       {Forecast::kAuto, Forecast::kPrevious, Forecast::kLocal, Forecast::kLocalAndPrevious}) {
    for (const Compensation compensation :
         {Compensation::kNone, Compensation::kPlain, Compensation::kAdaptive}) {
      PipelineOptions options = plain(3);
      options.forecast = forecast;
      options.compensation = compensation;
      options.correction = 0.5f;
      options.clip_norm = 5.0f;
      options.fresh_from = 30;
      options.guard.emplace();
      expect_alike(
          train(3, 25, options, 0.9f, [] { return make_wire_encoder(WireFormat::kInt8); }));
    }
  }
}

TEST(Pipeline, AForecastLeavesNoTraceInCommittedWeightsOrState) {
  // The point of the forward pass moves; undo that by giving gradients that do not depend on it.
  const MomentumRule rule(0.9f);
  std::vector<std::vector<float>> results;
  for (const Forecast forecast : {Forecast::kNone, Forecast::kLocalAndPrevious}) {
    PipelineOptions options = plain(3);
    options.forecast = forecast;
    BlockingAverager alone;
    std::vector<float> weights(10, 1.0f), gradient(10);
    Pipeline pipeline(options, rule, alone, weights);
    bool moved = false;
    for (uint64_t step = 0; step < 12; ++step) {
      for (size_t i = 0; i < gradient.size(); ++i) gradient[i] = static_cast<float>(step + i);
      ASSERT_TRUE(pipeline.step(gradient, 0, 0.01f).has_value());
      moved |= !std::equal(weights.begin(), weights.end(), pipeline.committed().begin());
    }
    EXPECT_EQ(moved, forecast != Forecast::kNone);
    ASSERT_TRUE(pipeline.flush().has_value());
    EXPECT_TRUE(std::equal(weights.begin(), weights.end(), pipeline.committed().begin()));
    EXPECT_EQ(pipeline.updates(), 12u);
    results.push_back(weights);
    results.emplace_back(pipeline.plane(0).begin(), pipeline.plane(0).end());
  }
  EXPECT_EQ(results[0], results[2]);
  EXPECT_EQ(results[1], results[3]);
}

TEST(Pipeline, AloneWithSteadyGradientsTheForecastIsWhereTheUpdateArrives) {
  const MomentumRule rule(0.9f);
  PipelineOptions options = plain(2);
  options.forecast = Forecast::kPrevious;
  BlockingAverager alone;
  std::vector<float> weights(4, 1.0f), gradient(4, 0.25f), foretold;
  Pipeline pipeline(options, rule, alone, weights);
  for (int step = 0; step < 6; ++step) {
    if (!foretold.empty()) {
      ASSERT_TRUE(pipeline.step(gradient, 0, 0.01f).has_value());
      EXPECT_TRUE(std::equal(foretold.begin(), foretold.end(), pipeline.committed().begin()));
    } else {
      ASSERT_TRUE(pipeline.step(gradient, 0, 0.01f).has_value());
    }
    if (pipeline.in_flight() == 1) foretold.assign(weights.begin(), weights.end());
  }
}

TEST(Pipeline, FreshParametersAreUpdatedInTheirOwnStepAndLateOnesAfterIt) {
  PipelineOptions options = plain(2);
  options.fresh_from = 25;
  const auto mixed = train(2, 15, options);
  expect_alike(mixed);
  const std::vector<float> late = by_hand(2, 15, 2, 2), fresh = by_hand(2, 15, 1, 0);
  for (size_t i = 0; i < late.size(); ++i) {
    EXPECT_EQ(mixed[0].weights[i], i < 25 ? late[i] : fresh[i]) << i;
  }
  options.fresh_from = 0;  // All fresh: nothing is late, and nothing hidden.
  EXPECT_EQ(train(2, 15, options)[0].weights, fresh);
}

TEST(Pipeline, AWidthChangesInMidRunOnlyAfterAFlush) {
  const auto ranks = train(2, 20, plain(3), 0.5f, {}, [](Pipeline& p, uint64_t step, Pull&) {
    if (step == 8) {
      EXPECT_EQ(p.in_flight(), 2u);
      EXPECT_EQ(p.set_width(1)->updates, 2u);
    }
    if (step == 14) {
      EXPECT_TRUE(p.set_width(2).has_value());
      EXPECT_FALSE(p.set_width(4).has_value());
    }
  });
  expect_alike(ranks);
  EXPECT_EQ(ranks[0].reports[8].updates, 1u);
  EXPECT_EQ(ranks[0].reports[14].updates, 0u);
}

TEST(Pipeline, ADriftedRankIsFoundOutOnAllRanks) {
  const auto ranks = train(3, 30, plain(2), 0.5f, {}, [](Pipeline&, uint64_t step, Pull& pull) {
    if (step == 7 && pull.rank == 2) pull.weights[5] = std::nextafter(pull.weights[5], 9.0f);
  });
  for (const History& rank : ranks) {
    ASSERT_TRUE(rank.error.has_value());
    EXPECT_NE(rank.error->what.find("weights differ before step 10"), std::string::npos)
        << rank.error->what;
  }
}

TEST(Pipeline, AMeanThatIsNotFiniteIsSkippedByAllAndCounted) {
  PipelineOptions options = plain(2);
  options.skip_non_finite = true;
  options.hash_every = 0;
  const auto ranks = train(2, 12, options, 0.9f, {}, [](Pipeline&, uint64_t step, Pull& pull) {
    // One rank alone overflows in step 5; nobody's weights may hear of it.
    if (step == 5 && pull.rank == 1) pull.weights[3] += INFINITY;
    if (step == 6 && pull.rank == 1) pull.weights[3] = NAN;
  });
  // Weights of rank 1 were poisoned in place: they differ. Only the verdicts are compared.
  for (const History& rank : ranks) {
    uint32_t skipped = 0;
    for (const StepReport& report : rank.reports) skipped += report.skipped;
    EXPECT_GE(skipped, 1u);
    EXPECT_EQ(rank.reports.size() > 6 ? rank.reports[6].skipped : 9u, 1u);  // One step late.
  }
}

TEST(Pipeline, AForecastForgetsWhatIsNotFinite) {
  const MomentumRule rule(0.9f);
  for (const Forecast forecast : {Forecast::kLocal, Forecast::kPrevious, Forecast::kAuto}) {
    PipelineOptions options = plain(2);
    options.forecast = forecast;
    options.skip_non_finite = true;
    BlockingAverager alone;
    std::vector<float> weights(4, 0.0f);
    Pipeline pipeline(options, rule, alone, weights);
    uint32_t skipped = 0;
    for (int step = 0; step < 12; ++step) {
      std::vector<float> gradient(4, 1.0f);
      if (step == 5) gradient[2] = INFINITY;
      const auto report = pipeline.step(gradient, 0, 0.1f);
      ASSERT_TRUE(report.has_value());
      skipped += report->skipped;
      for (const float weight : weights) ASSERT_TRUE(std::isfinite(weight)) << "step " << step;
    }
    ASSERT_TRUE(pipeline.flush().has_value());
    EXPECT_EQ(skipped, 1u);
    for (const float weight : weights) EXPECT_TRUE(std::isfinite(weight));
  }
}

TEST(Pipeline, ClippingCutsTheLateMeanToItsNorm) {
  const MomentumRule rule(0.0f);
  PipelineOptions options = plain(2);
  options.clip_norm = 1.0f;
  options.warmup_steps = 0;
  BlockingAverager alone;
  std::vector<float> weights(4, 0.0f), large(4, 3.0f), small(4, 0.1f);
  Pipeline pipeline(options, rule, alone, weights);
  ASSERT_TRUE(pipeline.step(large, 0, 1.0f).has_value());
  ASSERT_TRUE(pipeline.step(small, 0, 1.0f).has_value());
  for (const float weight : weights) EXPECT_FLOAT_EQ(weight, -0.5f);  // 3 * (1 / 6).
  ASSERT_TRUE(pipeline.flush().has_value());
  for (const float weight : weights) EXPECT_FLOAT_EQ(weight, -0.6f);
}

TEST(Pipeline, TheGuardFallsBackOnAllRanksInOneStep) {
  PipelineOptions options = plain(3);
  options.hash_every = 0;  // It would find out first that the weights of rank 1 were touched.
  options.guard = GuardOptions{};
  options.guard->settle = 5;
  options.guard->patience = 3;
  std::vector<uint64_t> fell(3, 0);
  const auto ranks = train(3, 40, options, 0.5f, {}, [](Pipeline&, uint64_t step, Pull& pull) {
    // From step 12 one rank's loss explodes; the others see it in the mean.
    if (step >= 12 && pull.rank == 1) pull.weights[0] = 500.0f + static_cast<float>(step);
  });
  for (const History& rank : ranks) {
    std::optional<size_t> step;
    for (size_t i = 0; i < rank.reports.size(); ++i) {
      if (rank.reports[i].fell_back) step = i;
    }
    ASSERT_TRUE(step.has_value());
    EXPECT_GE(rank.reports[*step].updates, 2u);  // What was in flight is applied at once.
    fell[static_cast<size_t>(&rank - ranks.data())] = *step;
    for (size_t i = *step + 1; i < rank.reports.size(); ++i) EXPECT_EQ(rank.reports[i].updates, 1u);
  }
  EXPECT_EQ(fell, std::vector<uint64_t>(3, fell[0]));
}

TEST(Pipeline, AFailedSumEndsTheStepWithItsNumber) {
  int calls = 0;
  BlockingAverager failing(
      0, 2,
      [&](std::span<float>) -> Result<void> {
        if (++calls < 4) return {};
        return fail(ErrorCode::kAborted, "rank 1 died");
      },
      [](std::span<double>) { return Result<void>(); });
  const MomentumRule rule(0.0f);
  PipelineOptions options = plain(2);
  options.hash_every = 0;
  std::vector<float> weights(4), gradient(4);
  Pipeline pipeline(options, rule, failing, weights);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(pipeline.step(gradient, 0, 0.1f).has_value());
  const auto failed = pipeline.step(gradient, 0, 0.1f);
  ASSERT_FALSE(failed.has_value());
  EXPECT_EQ(failed.error().what, "step 4: rank 1 died");
}

TEST(Pipeline, OptionsThatCannotWorkAreNamed) {
  PipelineOptions options;
  EXPECT_TRUE(options.validate().empty());
  options.width = 9;
  options.correction = 2;
  options.clip_norm = NAN;
  options.guard = GuardOptions{};
  options.guard->loss_factor = 1;
  const auto problems = options.validate();
  ASSERT_EQ(problems.size(), 4u);
  EXPECT_EQ(problems[0], "width must be 1 to 8, not 9");
}

}  // namespace
}  // namespace sumcast::pipeline
