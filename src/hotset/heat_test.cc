#include "hotset/heat.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "hotset/fan_in.h"

namespace sumcast::hotset {
namespace {

using testing::ElementsAre;

Corpus corpus_of(const std::vector<std::vector<uint64_t>>& rows) {
  Corpus corpus;
  for (const auto& row : rows) corpus.add_row(row);
  return corpus;
}

std::vector<uint32_t> all_rows(const Corpus& corpus) {
  std::vector<uint32_t> rows(corpus.rows());
  for (uint32_t i = 0; i < rows.size(); ++i) rows[i] = i;
  return rows;
}

/// Rows of `fields` keys with key k of a field about 1 / k as likely as the first.
Corpus skewed_corpus(size_t rows, uint64_t seed) {
  Prng prng(seed);
  Corpus corpus;
  std::vector<uint64_t> row;
  for (size_t i = 0; i < rows; ++i) {
    row.clear();
    for (uint64_t field = 0; field < 8; ++field) {
      const auto rank = static_cast<uint64_t>(std::pow(500.0, prng.unit()));
      row.push_back(field << 32 | rank);
    }
    corpus.add_row(row);
  }
  return corpus;
}

TEST(Heat, CountsTheBatchesThatTouchAKeyNotItsRows) {
  const Corpus corpus = corpus_of({{7, 8}, {7}, {7, 9}, {9}, {8}});
  const Heat heat = count_touches(corpus, all_rows(corpus), 2);
  EXPECT_EQ(heat.batches, 3u);  // {7 8 | 7}, {7 9 | 9}, {8}
  EXPECT_THAT(heat.touches, ElementsAre(2u, 2u, 1u));
  EXPECT_EQ(heat.updates(), 5u);
  EXPECT_DOUBLE_EQ(heat.chance(0), 2.0 / 3);
  const Heat by_row = count_touches(corpus, all_rows(corpus), 1);
  EXPECT_THAT(by_row.touches, ElementsAre(3u, 2u, 2u));
}

TEST(Heat, OrdersByHeatAndThenByKey) {
  const Corpus corpus = corpus_of({{30, 20, 10}, {10}, {40}});
  const Heat heat = count_touches(corpus, std::vector<uint32_t>{0, 1}, 1);
  std::vector<uint64_t> keys;
  for (const KeyIndex key : by_heat(corpus, heat)) keys.push_back(corpus.key(key));
  EXPECT_THAT(keys, ElementsAre(10u, 20u, 30u));  // 40 was not touched.
}

TEST(Heat, SharesAndKeysForHalf) {
  const Corpus corpus = corpus_of({{1, 2, 3}, {1, 2}, {1, 4}, {1}});  // 1: 4, 2: 2, 3 and 4: 1.
  const Heat heat = count_touches(corpus, all_rows(corpus), 1);
  const auto order = by_heat(corpus, heat);
  EXPECT_DOUBLE_EQ(share_of_first(heat, order, 1), 0.5);
  EXPECT_DOUBLE_EQ(share_of_first(heat, order, 2), 0.75);
  EXPECT_DOUBLE_EQ(share_of_first(heat, order, 99), 1.0);
  EXPECT_EQ(keys_for_half(heat, order), 1u);
}

TEST(Heat, ASampleDrawsDistinctRows) {
  const Corpus corpus = skewed_corpus(1000, 1);
  Prng prng(2);
  const auto rows = draw_rows(corpus, 0.04, prng);
  EXPECT_EQ(rows.size(), 40u);
  EXPECT_EQ(std::set<uint32_t>(rows.begin(), rows.end()).size(), 40u);
  const auto all = draw_rows(corpus, 1.0, prng);
  EXPECT_EQ(std::set<uint32_t>(all.begin(), all.end()).size(), 1000u);
  EXPECT_EQ(draw_rows(corpus, 1e-9, prng).size(), 1u);
}

TEST(Heat, ASampleOfSkewedDataFindsTheHotKeys) {
  const Corpus corpus = skewed_corpus(20'000, 3);
  const Heat full = count_touches(corpus, all_rows(corpus), 1);
  const auto order = by_heat(corpus, full);
  Prng prng(4);
  const auto sample = draw_rows(corpus, 0.08, prng);
  auto chosen = by_heat(corpus, count_touches(corpus, sample, 1));
  chosen.resize(corpus.distinct_keys() / 10);
  const SampleQuality quality = judge_sample(full, order, chosen);
  EXPECT_GT(quality.coverage, 0.95);
  EXPECT_GT(quality.overlap, 0.8);
  EXPECT_LE(quality.coverage, 1.0);
  const SampleQuality itself = judge_sample(full, order, std::span(order).first(chosen.size()));
  EXPECT_DOUBLE_EQ(itself.coverage, 1.0);
  EXPECT_DOUBLE_EQ(itself.overlap, 1.0);
}

TEST(FanIn, RisesFromOneToTheNumberOfWorkers) {
  EXPECT_NEAR(expected_fan_in(1e-12, 8), 1.0, 1e-9);
  EXPECT_DOUBLE_EQ(expected_fan_in(1.0, 8), 8.0);
  EXPECT_DOUBLE_EQ(expected_fan_in(0.5, 2), 1.0 / 0.75);
  for (const double fan_in : {1.5, 2.0, 7.9}) {
    EXPECT_NEAR(expected_fan_in(chance_for_fan_in(fan_in, 8), 8), fan_in, 1e-9);
  }
  EXPECT_EQ(chance_for_fan_in(1.0, 8), 0.0);
  EXPECT_GT(chance_for_fan_in(9.0, 8), 1.0);
}

TEST(FanIn, AgreesWithWhatIsCounted) {
  Prng prng(5);
  for (const double chance : {0.05, 0.3, 0.8}) {
    uint64_t contributions = 0, sums = 0;
    for (int round = 0; round < 100'000; ++round) {
      int touched = 0;
      for (int worker = 0; worker < 8; ++worker) touched += prng.chance(chance) ? 1 : 0;
      contributions += static_cast<uint64_t>(touched);
      sums += touched > 0 ? 1 : 0;
    }
    const double counted = static_cast<double>(contributions) / static_cast<double>(sums);
    EXPECT_NEAR(expected_fan_in(chance, 8), counted, 0.02 * counted);
  }
}

TEST(FanIn, OnlyKeysThatPayAreChosen) {
  // Key 1 in every row, 2 in half of them, 3 in a tenth.
  Corpus corpus;
  for (uint64_t i = 0; i < 100; ++i) {
    std::vector<uint64_t> row = {1};
    if (i % 2 == 0) row.push_back(2);
    if (i % 10 == 0) row.push_back(3);
    corpus.add_row(row);
  }
  const Heat heat = count_touches(corpus, all_rows(corpus), 1);
  const Chances chances = estimate_chances(heat, 1);
  const auto order = by_heat(corpus, heat);
  EXPECT_EQ(choose_hot(chances, order, 10, 4, 2.0).size(), 2u);  // 4 * .5 / (1 - .5^4) = 2.13
  EXPECT_EQ(choose_hot(chances, order, 10, 4, 2.2).size(), 1u);
  EXPECT_EQ(choose_hot(chances, order, 1, 4, 2.0).size(), 1u);
  EXPECT_EQ(choose_hot(chances, order, 10, 4, 1.0).size(), 3u);
  EXPECT_EQ(choose_hot(chances, order, 10, 4, 4.0).size(), 1u);  // At the bound itself.
  EXPECT_EQ(choose_hot(chances, order, 10, 2, 2.5).size(), 0u);
}

TEST(Chances, OfKeysSeenOftenAreTheirShares) {
  Corpus corpus;
  for (uint64_t i = 0; i < 1000; ++i) {
    std::vector<uint64_t> row = {1};
    if (i % 100 == 0) row.push_back(2);
    corpus.add_row(row);
  }
  const Chances chances = estimate_chances(count_touches(corpus, all_rows(corpus), 1), 64);
  EXPECT_DOUBLE_EQ(chances.of[0], 1.0);
  EXPECT_NEAR(chances.of[1], 1 - std::pow(0.99, 64), 1e-12);
  EXPECT_NEAR(chances.keys_per_batch, chances.of[0] + chances.of[1], 1e-12);
}

TEST(Chances, ASampleDoesNotMakeLuckyKeysHot) {
  // 26 of 100,000 equally likely keys in each of 200 rows: nearly all are seen once, some twice.
  Prng prng(9);
  Corpus corpus;
  for (int i = 0; i < 200; ++i) {
    std::vector<uint64_t> row;
    for (uint64_t field = 0; field < 26; ++field) row.push_back(field << 32 | prng.below(4000));
    corpus.add_row(row);
  }
  const Heat heat = count_touches(corpus, all_rows(corpus), 1);
  const auto order = by_heat(corpus, heat);
  ASSERT_GE(heat.touches[order[0]], 2u);
  const Chances chances = estimate_chances(heat, 64);
  // As counted, a key seen once would be in 27 % of the batches, and eight workers would share it.
  EXPECT_GT(expected_fan_in(1 - std::pow(1 - 1.0 / 200, 64), 8), 2);
  EXPECT_TRUE(choose_hot(chances, order, 10'000, 8, 2.0).empty());
  EXPECT_NEAR(chances.keys_per_batch, 64 * 26, 64 * 26 * 0.03);  // Hardly one of them twice.
}

TEST(Chances, OfASampleAddUpToWhatTheDataHas) {
  // Judged by the keys that a small sample calls hot: their touches in all of the data.
  const Corpus corpus = skewed_corpus(40'000, 10);
  Prng prng(11);
  const auto rows = draw_rows(corpus, 1.0, prng);
  const Heat full = count_touches(corpus, rows, 32);
  const Heat sampled = count_touches(corpus, std::span(rows).first(400), 1);
  const Chances chances = estimate_chances(sampled, 32);
  double estimated = 0, counted = 0, naive = 0;
  for (const KeyIndex key : by_heat(corpus, sampled)) {
    estimated += chances.of[key];
    counted += full.chance(key);
    naive += 1 - std::pow(1 - sampled.chance(key), 32);
  }
  // Mid-sized counts are noise that 1 - (1 - f)^B, being concave, does not quite average out.
  EXPECT_NEAR(estimated, counted, 0.06 * counted);
  EXPECT_GT(naive, 1.2 * counted);
  EXPECT_NEAR(chances.keys_per_batch,
              static_cast<double>(full.updates()) / static_cast<double>(full.batches),
              0.05 * chances.keys_per_batch);
}

TEST(FanIn, PredictedTrafficIsWhatRoundsOfBatchesHave) {
  const Corpus corpus = skewed_corpus(40'000, 6);
  Prng prng(7);
  const auto rows = draw_rows(corpus, 1.0, prng);
  const Heat heat = count_touches(corpus, rows, 1);
  auto hot = by_heat(corpus, heat);
  hot.resize(300);
  const Traffic predicted = predict_traffic(estimate_chances(heat, 32), hot, 8);
  const Traffic measured = measure_traffic(corpus, rows, 32, hot, 8);
  EXPECT_NEAR(predicted.sent, measured.sent, 0.01 * measured.sent);
  EXPECT_NEAR(predicted.fan_in(), measured.fan_in(), 0.02 * measured.fan_in());
  EXPECT_NEAR(predicted.hot_share(), measured.hot_share(), 0.01);
  EXPECT_NEAR(predicted.dual_received(), measured.dual_received(), 0.02);
  EXPECT_GT(predicted.forward_saving(), 1.3);
  EXPECT_GT(predicted.dual_saving(), predicted.forward_saving());
  EXPECT_GT(predicted.dual_received(), 1.0);
}

TEST(FanIn, TrafficOfTwoWorkersByHand) {
  // Worker 1 sends {1, 2}, worker 2 {1, 3}; then {1, 2} and {1, 2}. Hot: 1 and 2.
  const Corpus corpus = corpus_of({{1, 2}, {1, 3}, {1, 2}, {1, 2}});
  const Traffic traffic =
      measure_traffic(corpus, all_rows(corpus), 1, std::vector<KeyIndex>{0, 1}, 2);
  EXPECT_DOUBLE_EQ(traffic.sent, 4.0);
  EXPECT_DOUBLE_EQ(traffic.hot_sent, 3.5);
  EXPECT_DOUBLE_EQ(traffic.hot_sums, 2.0);
  EXPECT_DOUBLE_EQ(traffic.fan_in(), 1.75);
  EXPECT_DOUBLE_EQ(traffic.forward_saving(), 4.0 / 2.5);
  EXPECT_DOUBLE_EQ(traffic.dual_saving(), 8.0);
  EXPECT_DOUBLE_EQ(traffic.dual_received(), 2.25 / 2.0);
  const Traffic none = measure_traffic(corpus, all_rows(corpus), 1, {}, 2);
  EXPECT_DOUBLE_EQ(none.forward_saving(), 1.0);
  EXPECT_DOUBLE_EQ(none.dual_saving(), 1.0);
  EXPECT_DOUBLE_EQ(none.dual_received(), 1.0);
}

}  // namespace
}  // namespace sumcast::hotset
