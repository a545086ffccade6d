#include "trainer/train.h"

#include <gtest/gtest.h>

#include <barrier>
#include <filesystem>
#include <numeric>
#include <thread>

#include "base/prng.h"

namespace sumcast::trainer {
namespace {

/// Images of 8x8 pixels in which a bright row tells the class (rows 8 and 9 are columns 0 and 1),
/// under noise: learnt within a few steps.
ImageSet striped_images(size_t count, uint64_t seed) {
  Prng prng(seed);
  ImageSet set{count, 8, 8, std::vector<uint8_t>(count * 64), std::vector<uint8_t>(count)};
  for (size_t i = 0; i < count; ++i) {
    const auto label = static_cast<uint8_t>(prng.below(kClasses));
    set.labels[i] = label;
    for (size_t p = 0; p < 64; ++p) {
      const bool bright = label < 8 ? p / 8 == label : p % 8 == label - 8u;
      set.pixels[i * 64 + p] = static_cast<uint8_t>(prng.below(100) + (bright ? 120 : 0));
    }
  }
  return set;
}

FashionMnist striped_data() { return {striped_images(640, 1), striped_images(200, 2)}; }

TrainOptions small_options() {
  TrainOptions options;
  options.batch = 32;
  options.hidden = {24};
  return options;
}

Result<void> alone(std::span<float>) { return {}; }

/// A clock that moves by 1 ms at each look.
ClockFn ticking() {
  return [time = Instant{1}]() mutable { return time = time + 1ms; };
}

TEST(Train, LossFallsAndUnseenImagesAreRecognised) {
  const auto outcome = train(striped_data(), {}, small_options(), alone, {}, ticking());
  ASSERT_TRUE(outcome.has_value()) << outcome.error().what;
  ASSERT_EQ(outcome->losses.size(), 60u);
  EXPECT_LT(outcome->losses.back(), 0.2f * outcome->losses.front());
  EXPECT_GT(outcome->accuracy.value(), 0.95);
}

TEST(Train, RepeatsBitByBitAndDependsOnTheSeed) {
  const FashionMnist data = striped_data();
  TrainOptions options = small_options();
  options.epochs = 1;
  const auto first = train(data, {}, options, alone, {}, ticking());
  const auto second = train(data, {}, options, alone, {}, ticking());
  options.seed = 2;
  const auto other = train(data, {}, options, alone, {}, ticking());
  ASSERT_TRUE(first && second && other);
  EXPECT_EQ(first->weights_hash, second->weights_hash);
  EXPECT_EQ(first->losses, second->losses);
  EXPECT_NE(first->weights_hash, other->weights_hash);
}

/// Two ranks as threads; the reduction meets at barriers and adds in rank order.
class TwoRanks {
 public:
  Result<TrainOutcome> run(Rank rank, const FashionMnist& data, const TrainOptions& options) {
    const auto reduce = [this, rank](std::span<float> mine) -> Result<void> {
      shares_[rank.value].assign(mine.begin(), mine.end());
      barrier_.arrive_and_wait();
      for (size_t i = 0; i < mine.size(); ++i) mine[i] = (shares_[0][i] + shares_[1][i]) / 2.0f;
      barrier_.arrive_and_wait();
      return {};
    };
    return train(data, {rank, 2}, options, reduce, {}, ticking());
  }

 private:
  std::array<std::vector<float>, 2> shares_;
  std::barrier<> barrier_{2};
};

TEST(Train, TwoWorkersKeepEqualWeightsAndFollowOneWorkerWithTheBigBatch) {
  const FashionMnist data = striped_data();
  TrainOptions options = small_options();
  options.epochs = 1;
  const auto big = train(data, {}, options, alone, {}, ticking());
  options.batch /= 2;
  TwoRanks ranks;
  std::array<Result<TrainOutcome>, 2> outcomes;
  std::thread other([&] { outcomes[1] = ranks.run(Rank(1), data, options); });
  outcomes[0] = ranks.run(Rank(0), data, options);
  other.join();
  ASSERT_TRUE(big && outcomes[0] && outcomes[1]);
  EXPECT_EQ(outcomes[0]->weights_hash, outcomes[1]->weights_hash);
  EXPECT_TRUE(outcomes[0]->accuracy.has_value());
  EXPECT_FALSE(outcomes[1]->accuracy.has_value());
  ASSERT_EQ(outcomes[0]->losses.size(), big->losses.size());
  for (size_t step = 0; step < big->losses.size(); ++step) {
    const float mean = (outcomes[0]->losses[step] + outcomes[1]->losses[step]) / 2.0f;
    EXPECT_NEAR(mean, big->losses[step], 1e-3) << "step " << step;
  }
}

TEST(Train, ReportsProgressBytesAndTimes) {
  std::vector<int> seen;
  TrainOptions options = small_options();
  options.epochs = 1;
  options.limit_images = 100;
  const auto progress = [&](const TrainProgress& at) {
    EXPECT_EQ(at.steps, 3);
    seen.push_back(at.step);
  };
  const auto outcome = train(striped_data(), {}, options, alone, progress, ticking());
  ASSERT_TRUE(outcome.has_value());
  EXPECT_EQ(seen, (std::vector<int>{1, 2, 3}));
  EXPECT_EQ(outcome->gradient_bytes, 4u * (64 * 24 + 24 + 24 * 10 + 10));
  EXPECT_EQ(outcome->reduce_median, 1ms);
  EXPECT_GT(outcome->step_median, outcome->reduce_median);
}

TEST(Train, AFailedReductionEndsItWithTheStepInFront) {
  int calls = 0;
  const auto reduce = [&](std::span<float>) -> Result<void> {
    if (++calls < 2) return {};
    return fail(ErrorCode::kAborted, "rank 3 died");
  };
  const auto outcome = train(striped_data(), {}, small_options(), reduce, {}, ticking());
  ASSERT_FALSE(outcome.has_value());
  EXPECT_EQ(outcome.error().code, ErrorCode::kAborted);
  EXPECT_EQ(outcome.error().what, "training step 2 of 60: rank 3 died");
}

TEST(Train, RefusesOptionsThatCannotWorkAndNamesThemAll) {
  TrainOptions options = small_options();
  options.epochs = 0;
  options.momentum = 1.0f;
  const auto outcome = train(striped_data(), {}, options, alone, {}, ticking());
  ASSERT_FALSE(outcome.has_value());
  EXPECT_NE(outcome.error().what.find("epochs must be at least 1, not 0; momentum"),
            std::string::npos)
      << outcome.error().what;
  options = small_options();
  options.batch = 300;
  const auto too_few = train(striped_data(), {Rank(0), 4}, options, alone, {}, ticking());
  ASSERT_FALSE(too_few.has_value());
  EXPECT_NE(too_few.error().what.find("640 images are too few"), std::string::npos);
}

TEST(Train, LearnsFashionMnistFromAFewThousandImages) {
  if (!std::filesystem::exists(kFashionMnistDirectory)) GTEST_SKIP() << "package not installed";
  const auto data = load_fashion_mnist();
  ASSERT_TRUE(data.has_value()) << data.error().what;
  TrainOptions options;
  options.epochs = 1;
  options.hidden = {64};
  options.limit_images = 12'000;
  const auto outcome = train(*data, {}, options, alone, {}, ticking());
  ASSERT_TRUE(outcome.has_value()) << outcome.error().what;
  EXPECT_GT(outcome->accuracy.value(), 0.78);
}

}  // namespace
}  // namespace sumcast::trainer
