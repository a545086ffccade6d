// Pipelines that choose their own width, over ranks with clocks of their own.
#include <gtest/gtest.h>

#include <algorithm>

#include "pipeline/test_model.h"

namespace sumcast::pipeline {
namespace {

using testing::MomentumRule;
using testing::Pull;
using testing::run_ranks;
using testing::Switchboard;
using testing::TestAverager;

/// What sums take: they begin when all ranks have begun them, and pass a link one after the other.
struct Network {
  double latency_s = 0, link_s = 0.002;
};

/// Passes on to ranks of this process, and moves this rank's clock to when a sum would be here.
class ClockedAverager final : public Averager {
 public:
  ClockedAverager(TestAverager& inner, Network& network, uint32_t ways)
      : inner_(inner), network_(network), ways_(ways) {}

  uint32_t ranks() const override { return inner_.ranks(); }
  uint32_t rank() const override { return inner_.rank(); }
  uint32_t ways() const override { return ways_; }
  void choose(uint32_t way) override { way_ = way; }
  Result<void> begin_mean(uint32_t slot, std::span<const float> values,
                          std::span<float> mean) override {
    std::vector<double>& begins = begins_[slot];
    begins.assign(ranks(), 0.0);
    begins[rank()] = now_s;
    links_[slot] = network_.link_s / (way_ + 1);
    if (auto begun = inner_.begin_mean(slot, values, mean); !begun) return begun;
    return inner_.begin_sum(kClockSlots + slot, begins);
  }
  Result<void> finish_mean(uint32_t slot) override {
    if (auto done = inner_.finish_mean(slot); !done) return done;
    if (auto done = inner_.finish_sum(kClockSlots + slot); !done) return done;
    link_free_s_ = std::max(link_free_s_, *std::ranges::max_element(begins_[slot])) + links_[slot];
    now_s = std::max(now_s, link_free_s_ + network_.latency_s);
    return {};
  }
  Result<void> begin_sum(uint32_t slot, std::span<double> values) override {
    return inner_.begin_sum(slot, values);
  }
  Result<void> finish_sum(uint32_t slot) override { return inner_.finish_sum(slot); }

  double now_s = 1;

 private:
  static constexpr uint32_t kClockSlots = 100;
  TestAverager& inner_;
  Network& network_;
  uint32_t ways_, way_ = 0;
  double link_free_s_ = 0;
  std::map<uint32_t, std::vector<double>> begins_;
  std::map<uint32_t, double> links_;
};

/// What one rank saw.
struct Course {
  std::vector<uint32_t> widths;  ///< After each step.
  std::vector<uint32_t> ways;
  std::vector<uint64_t> hashes;
  std::vector<std::string> reasons;
  std::optional<std::string> fell_back;
  std::vector<std::byte> checkpoint;
  std::optional<Error> error;
  double seconds = 0;
};

struct Plan {
  PipelineOptions options;
  uint64_t steps = 120;
  Network network;
  /// Of a rank's computing in a step.
  std::function<double(uint32_t rank, uint64_t step)> compute_s = [](uint32_t rank, uint64_t step) {
    return 0.010 + 0.001 * rank + 0.0005 * static_cast<double>(step % 3);
  };
  std::function<void(Pipeline&, uint64_t step, Network&)> before;
  uint64_t save_at = 0;
  float loss_after = 1;  ///< From step 60 on.
};

PipelineOptions tuned(uint32_t width_max = 4) {
  PipelineOptions options;
  options.width = width_max;
  options.hash_every = 5;
  options.tune.emplace();
  return options;
}

std::vector<Course> run(const Plan& plan, const std::vector<Course>& from = {}) {
  constexpr uint32_t kRanks = 3;
  std::vector<Course> courses(kRanks);
  const MomentumRule rule(0.9f);
  run_ranks(kRanks, [&](TestAverager& inner) {
    const uint32_t rank = inner.rank();
    Course& course = courses[rank];
    Network network = plan.network;
    const auto ways = plan.options.tune ? plan.options.tune->ways.size() : 1;
    ClockedAverager averager(inner, network, static_cast<uint32_t>(ways));
    Pull pull(rank);
    Pipeline pipeline(plan.options, rule, averager, pull.weights, nullptr,
                      [&] { return Instant{static_cast<int64_t>(averager.now_s * 1e9)}; });
    if (!from.empty()) {
      const auto restored = pipeline.restore(from[rank].checkpoint);
      ASSERT_TRUE(restored.has_value()) << restored.error().what;
    }
    while (pipeline.steps() < plan.steps) {
      const uint64_t step = pipeline.steps();
      if (plan.before) plan.before(pipeline, step, network);
      averager.now_s += plan.compute_s(rank, step);
      pull.backward(step);
      const float loss = step < 60 ? 1.0f : plan.loss_after;
      auto report = pipeline.step(pull.gradient, loss, 0.01f);
      if (!report) {
        course.error = report.error();
        return;
      }
      if (report->retuned) course.reasons.push_back(*report->retuned);
      if (report->fell_back) course.fell_back = report->fell_back;
      course.widths.push_back(pipeline.width());
      course.ways.push_back(pipeline.way());
      course.hashes.push_back(hash_of_bits(pipeline.committed()));
      if (pipeline.steps() == plan.save_at) course.checkpoint = pipeline.save().value();
    }
    course.seconds = averager.now_s - 1;
  });
  for (const Course& course : courses) {
    EXPECT_FALSE(course.error.has_value()) << course.error->what;
    EXPECT_EQ(course.widths, courses[0].widths);
    EXPECT_EQ(course.ways, courses[0].ways);
    EXPECT_EQ(course.hashes, courses[0].hashes);
    EXPECT_EQ(course.reasons, courses[0].reasons);
  }
  return courses;
}

double seconds_with(Plan plan, uint32_t width) {
  plan.options.tune.reset();
  plan.options.width = width;
  return run(plan)[0].seconds;
}

TEST(Tuning, RanksOfDifferentSpeedsChangeAtOneStepAndKeepTheSameBits) {
  for (const Forecast forecast : {Forecast::kNone, Forecast::kLocalAndPrevious}) {
    Plan plan;
    plan.options = tuned();
    plan.options.forecast = forecast;
    plan.network = {0.0001, 0.009};
    const Course course = run(plan)[0];
    EXPECT_EQ(course.widths.front(), 1u);
    EXPECT_EQ(course.widths.back(), 2u);
    ASSERT_EQ(course.reasons.size(), 1u);
    EXPECT_NE(course.reasons[0].find("K = 2, direct, native"), std::string::npos)
        << course.reasons[0];
  }
}

TEST(Tuning, TakesTheTimeOfTheBestFixedWidth) {
  for (const Network& network : {Network{0.0001, 0.00005}, Network{0.0001, 0.006},
                                 Network{0.0001, 0.030}, Network{0.025, 0.002}}) {
    Plan plan;
    plan.options = tuned();
    plan.steps = 1000;
    plan.network = network;
    double best = 1e9;
    for (uint32_t width = 1; width <= 4; ++width) best = std::min(best, seconds_with(plan, width));
    EXPECT_LE(run(plan)[0].seconds, 1.05 * best)
        << "link " << network.link_s << ", latency " << network.latency_s;
  }
}

TEST(Tuning, FollowsTheNetworkDuringTheRun) {
  Plan plan;
  plan.options = tuned();
  plan.steps = 700;
  plan.network = {0.0001, 0.0001};
  plan.before = [](Pipeline&, uint64_t step, Network& network) {
    if (step == 200) network = {0.0001, 0.008};
    if (step == 400) network = {0.030, 0.001};
  };
  const Course course = run(plan)[0];
  EXPECT_EQ(course.widths[199], 1u);
  EXPECT_EQ(course.widths[399], 2u);
  EXPECT_EQ(course.widths.back(), 4u);
}

TEST(Tuning, ChoosesAmongTheWaysOfTheAveragerOnly) {
  Plan plan;
  plan.options = tuned();
  plan.options.tune->ways = {{plan::Collective::kInNetwork, WireFormat::kNative},
                             {plan::Collective::kInNetwork, WireFormat::kBF16}};
  plan.steps = 300;
  plan.network = {0.0001, 0.020};
  EXPECT_EQ(run(plan)[0].ways.back(), 1u);
  plan.network = {0.0001, 0.008};
  const Course fast = run(plan)[0];
  EXPECT_EQ(std::ranges::count(fast.ways, 1u), 0);
}

TEST(Tuning, EpochsThatEndInAFlushDisturbNothing) {
  Plan plan;
  plan.options = tuned();
  plan.steps = 300;
  plan.network = {0.0001, 0.006};
  plan.before = [](Pipeline& pipeline, uint64_t step, Network&) {
    if (step % 25 == 24) {
      ASSERT_TRUE(pipeline.flush().has_value());
    }
  };
  const Course course = run(plan)[0];
  EXPECT_EQ(course.widths.back(), 2u);
  EXPECT_EQ(course.reasons.size(), 1u);
}

TEST(Tuning, TheGuardsWordIsTheLast) {
  Plan plan;
  plan.options = tuned();
  plan.options.guard.emplace();
  plan.steps = 300;
  plan.network = {0.0001, 0.009};
  plan.loss_after = 100;
  const Course course = run(plan)[0];
  ASSERT_TRUE(course.fell_back.has_value());
  EXPECT_EQ(course.widths[59], 2u);
  EXPECT_EQ(course.widths.back(), 1u);
  EXPECT_EQ(std::ranges::count(course.widths.end() - 150, course.widths.end(), 1u), 150);
}

TEST(Tuning, AWidthThatIsSetStays) {
  Plan plan;
  plan.options = tuned();
  plan.steps = 200;
  plan.network = {0.0001, 0.009};
  plan.before = [](Pipeline& pipeline, uint64_t step, Network&) {
    if (step == 50) {
      ASSERT_TRUE(pipeline.set_width(1).has_value());
    }
  };
  const Course course = run(plan)[0];
  EXPECT_EQ(course.widths[49], 2u);
  EXPECT_EQ(std::ranges::count(course.widths.begin() + 50, course.widths.end(), 1u), 150);
}

TEST(Tuning, ACheckpointGoesOnWithTheChoiceAndWhatIsKnown) {
  Plan plan;
  plan.options = tuned();
  plan.network = {0.0001, 0.009};
  plan.save_at = 62;  // The step that carries times is under way.
  const auto whole = run(plan);
  EXPECT_EQ(whole[0].widths[61], 2u);
  plan.save_at = 0;
  const auto resumed = run(plan, whole);
  ASSERT_EQ(resumed[0].widths.size(), 58u);
  EXPECT_EQ(std::ranges::count(resumed[0].widths, 2u), 58);
  EXPECT_EQ(resumed[0].hashes, std::vector(whole[0].hashes.begin() + 62, whole[0].hashes.end()));

  // One of a run without a choice is another's.
  BlockingAverager alone(0, 3, {}, {});
  const MomentumRule rule(0.9f);
  std::vector<float> weights(40, 7.0f);
  PipelineOptions fixed = plan.options;
  fixed.tune.reset();
  Pipeline other(fixed, rule, alone, weights);
  const auto refused = other.restore(whole[0].checkpoint);
  ASSERT_FALSE(refused.has_value());
  EXPECT_NE(refused.error().what.find("it has ways to choose from: 1, this run 0"),
            std::string::npos)
      << refused.error().what;
}

TEST(Tuning, ImpossibleOptionsAreRefused) {
  PipelineOptions options = tuned();
  EXPECT_TRUE(options.validate().empty());
  options.tune->ways = {Way{}, Way{}};
  options.tune->window_steps = 4;
  options.tune->patience = 0;
  EXPECT_EQ(options.validate().size(), 3u);
  options.tune->ways.clear();
  EXPECT_EQ(options.validate().size(), 3u);
}

TEST(Tuning, ALongStepAmongMeansCountsLittle) {
  EXPECT_EQ(steady_mean({}), 0.0);
  EXPECT_DOUBLE_EQ(steady_mean({1, 1, 1, 1, 1000}), 7.0 / 5);
  EXPECT_DOUBLE_EQ(steady_mean({1, 2, 1, 2}), 1.5);
}

}  // namespace
}  // namespace sumcast::pipeline
