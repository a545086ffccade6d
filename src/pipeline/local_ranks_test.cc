#include "pipeline/local_ranks.h"

#include <gtest/gtest.h>

#include <thread>

namespace sumcast::pipeline {
namespace {

TEST(LocalRanks, MeansAreExactAndInRankOrderOnAll) {
  LocalRanks all(3, 10s);
  std::vector<std::vector<float>> values(3);
  std::vector<double> sums(3);
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < 3; ++rank) {
    threads.emplace_back([&, rank] {
      LocalAverager averager(all, rank);
      for (size_t i = 0; i < 1000; ++i) {
        values[rank].push_back(static_cast<float>(i) + 0.1f * static_cast<float>(rank));
      }
      double sum = rank;
      EXPECT_TRUE(averager.begin_mean(2, values[rank], values[rank]).has_value());
      EXPECT_TRUE(averager.begin_sum(2, std::span(&sum, 1)).has_value());
      values[rank][7] = 70;  // Read when it is finished, not when it began.
      EXPECT_TRUE(averager.finish_mean(2).has_value());
      EXPECT_TRUE(averager.finish_sum(2).has_value());
      sums[rank] = sum;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(values[0], values[1]);
  EXPECT_EQ(values[0], values[2]);
  EXPECT_EQ(values[0][5], (5.0f + 5.1f + 5.2f) / 3.0f);
  EXPECT_EQ(values[0][7], 70.0f);
  EXPECT_EQ(sums, std::vector<double>(3, 3.0));
}

TEST(LocalRanks, AMeanWithMemoryOfItsOwnLeavesTheValues) {
  LocalRanks all(2, 10s);
  const std::vector<std::vector<float>> values = {{1, 2, 3}, {3, 6, 4}};
  std::vector<std::vector<float>> means(2, std::vector<float>(3));
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      LocalAverager averager(all, rank);
      EXPECT_TRUE(averager.begin_mean(0, values[rank], means[rank]).has_value());
      EXPECT_TRUE(averager.finish_mean(0).has_value());
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(values[0], (std::vector<float>{1, 2, 3}));
  for (const auto& mean : means) EXPECT_EQ(mean, (std::vector<float>{2, 4, 3.5}));
}

TEST(LocalRanks, AMissingOrFailedRankEndsAllWaits) {
  LocalRanks patient(2, 50ms);
  LocalAverager alone(patient, 0);
  float value = 1;
  ASSERT_TRUE(alone.begin_mean(0, std::span(&value, 1), std::span(&value, 1)).has_value());
  const auto failed = alone.finish_mean(0);
  ASSERT_FALSE(failed.has_value());
  EXPECT_EQ(failed.error().what, "a rank did not come");

  LocalRanks all(2, 60s);
  LocalAverager first(all, 0);
  ASSERT_TRUE(first.begin_mean(0, std::span(&value, 1), std::span(&value, 1)).has_value());
  std::thread other([&] { all.give_up("rank 1 has no data"); });
  EXPECT_EQ(first.finish_mean(0).error().what, "rank 1 has no data");
  other.join();
}

}  // namespace
}  // namespace sumcast::pipeline
