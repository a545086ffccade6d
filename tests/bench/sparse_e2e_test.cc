// Sparse training from end to end: the bench's paths end with the same rows, and `sumcast train`
// learns, to the same bits whichever way its keys go.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <random>

#include "run_json.h"

namespace sumcast {
namespace {

TEST(SparseBench, AllPathsEndWithTheSameRowsUnderLoss) {
  const Outcome outcome = run_json(
      "bench sparse --workers 3 --vocabulary 20000 --batch 64 --rounds 8 --flush-every 4 "
      "--repeats 2 --loss 0.01");
  EXPECT_TRUE(outcome.status.ok()) << outcome.status.describe();
  ASSERT_EQ(outcome.rows.size(), 4u);
  for (const auto& row : outcome.rows) EXPECT_EQ(row["wrong"], 0) << row;
  EXPECT_EQ(outcome.rows[0]["path"], "servers");
  EXPECT_EQ(outcome.rows[0]["hot_keys"], 0);
  EXPECT_EQ(outcome.rows[1]["path"], "forward");
  EXPECT_EQ(outcome.rows[2]["path"], "dual");
  for (const size_t hot : {1, 2}) {
    EXPECT_GT(outcome.rows[hot]["hot_keys"], 0);
    EXPECT_GT(outcome.rows[hot]["hot_share"], 0.1);
  }
  EXPECT_TRUE(outcome.rows[3].contains("chosen"));
}

TEST(SparseBench, HotSumsAreForwardedToSeveralServers) {
  const Outcome outcome = run_json(
      "bench sparse --workers 3 --servers 2 --vocabulary 20000 --batch 64 --rounds 6 "
      "--flush-every 6 --repeats 2 --wire bf16 --path servers,forward");
  EXPECT_TRUE(outcome.status.ok()) << outcome.status.describe();
  ASSERT_EQ(outcome.rows.size(), 2u);
  EXPECT_EQ(outcome.rows[1]["wrong"], 0);
  EXPECT_GT(outcome.rows[1]["hot_share"], 0.1);
}

constexpr double kQueueBytes = 1 << 20;  // Of a shaped port (lab/topology.cc).

/// Incast: a round of all workers is many times what the queue in front of the server holds.
TEST(SparseBench, ManyWorkersDoNotOverrunTheQueueOfAServersPort) {
  const Outcome outcome = run_json(
      "bench sparse --workers 16 --rate 300mbit --path servers --rounds 8 --flush-every 8 "
      "--repeats 1");
  EXPECT_TRUE(outcome.status.ok()) << outcome.status.describe();
  ASSERT_EQ(outcome.rows.size(), 1u);
  if (outcome.rows[0]["server_bytes"] == 0) GTEST_SKIP() << "no links that count packets";
  EXPECT_GT(outcome.rows[0]["server_bytes"], 4 * kQueueBytes);
  EXPECT_EQ(outcome.rows[0]["server_drops"], 0);
}

/// What goes out ahead and beside rounds is held back as they are.
TEST(SparseBench, LateRoundsAndFlushesDoNotOverrunItEither) {
  const Outcome outcome = run_json(
      "bench sparse --workers 12 --rate 300mbit --path servers,dual --rounds 8 --flush-every 8 "
      "--repeats 1 --staleness 0,4");
  EXPECT_TRUE(outcome.status.ok()) << outcome.status.describe();
  ASSERT_EQ(outcome.rows.size(), 4u);
  if (outcome.rows[0]["server_bytes"] == 0) GTEST_SKIP() << "no links that count packets";
  for (const auto& row : outcome.rows) {
    EXPECT_EQ(row["wrong"], 0);
    EXPECT_EQ(row["server_drops"], 0) << row;
  }
  const auto& prompt = outcome.rows[0];
  const auto& late = outcome.rows[2];
  EXPECT_EQ(late["staleness"], 4);
  EXPECT_LT(late["server_bytes"].get<double>(), 1.05 * prompt["server_bytes"].get<double>());
}

TEST(SparseBench, RowsThatTravelInFewerBytesReadAlikeOnAllPaths) {
  const std::string base =
      "bench sparse --workers 3 --vocabulary 20000 --batch 64 --rounds 8 --flush-every 4 "
      "--repeats 2 ";
  const Outcome exact = run_json(base + "--path servers");
  const Outcome rounded = run_json(base + "--path servers,forward,dual --row-wire int8");
  EXPECT_TRUE(rounded.status.ok()) << rounded.status.describe();
  ASSERT_EQ(exact.rows.size(), 1u);
  ASSERT_EQ(rounded.rows.size(), 3u);
  for (const auto& row : rounded.rows) {
    EXPECT_EQ(row["wrong"], 0) << row;
    EXPECT_EQ(row["row_wire"], "int8");
  }
  // Of a key 8 + 64 + 64 bytes travel, or 8 + 64 + 20.
  if (rounded.rows[0]["server_bytes"] == 0) GTEST_SKIP() << "no links that count bytes";
  EXPECT_LT(rounded.rows[0]["server_bytes"].get<double>(),
            0.8 * exact.rows[0]["server_bytes"].get<double>());
}

TEST(SparseBench, ImpossibleFlagsAreUsageErrors) {
  for (const char* flags :
       {"--skew round", "--path over", "--path dual,dual", "--optimizer lion", "--wire fixed",
        "--row-wire fixed", "--row-wire fp8", "--rounds 10 --flush-every 4"}) {
    EXPECT_EQ(run_json(std::string("bench sparse ") + flags).status.code, 2) << flags;
  }
}

/// Two classes that one of twenty keys decides, and noise.
class SparseTraining : public ::testing::Test {
 protected:
  void SetUp() override {
    std::mt19937 random(5);
    std::ofstream file(path_);
    for (int i = 0; i < 4000; ++i) {
      const bool positive = random() % 2 == 0;
      file << (positive ? 1 : 0) << ' ' << (positive ? 1 : 11) + random() % 10 << ":1";
      file << ' ' << 100 + random() % 500 << ":0.5\n";
    }
  }
  void TearDown() override { std::remove(path_.c_str()); }

  Outcome train(const std::string& flags) {
    return run_json("train --data " + path_ + " --workers 3 --epochs 2 " + flags);
  }
  std::string path_ = ::testing::TempDir() + "sumcast_train.svm";
};

TEST_F(SparseTraining, LearnsToTheSameBitsHotColdAndOnMoreServers) {
  for (const char* model : {"lr", "fm"}) {
    const std::string base = std::string("--model ") + model + " ";
    const Outcome cold = train(base + "--hot 0");
    EXPECT_TRUE(cold.status.ok());
    ASSERT_EQ(cold.rows.size(), 2u);
    EXPECT_GT(cold.rows[1]["auc"], 0.98);
    EXPECT_EQ(cold.rows[1]["hot_share"], 0.0);
    for (const char* other : {"--hot 30", "--hot auto --servers 3"}) {
      const Outcome same = train(base + other);
      ASSERT_EQ(same.rows.size(), 2u);
      for (size_t epoch = 0; epoch < 2; ++epoch) {
        EXPECT_EQ(same.rows[epoch]["train_loss"], cold.rows[epoch]["train_loss"]) << other;
        EXPECT_EQ(same.rows[epoch]["test_loss"], cold.rows[epoch]["test_loss"]) << other;
      }
    }
  }
}

/// Layers find what a sum of weights cannot, and their gradients change no bit of the rows' paths.
TEST(SparseModels, DeepFmLearnsFromAClickLogToTheSameBitsHotAndCold) {
  const std::string base = "train --data ctr --rows 100000 --workers 3 --epochs 1 --hidden 32,16 ";
  const Outcome cold = run_json(base + "--model deepfm --hot 0");
  ASSERT_EQ(cold.rows.size(), 1u);
  const Outcome linear = run_json(base + "--model lr --hot 0");
  ASSERT_EQ(linear.rows.size(), 1u);
  EXPECT_GT(cold.rows[0]["auc"], linear.rows[0]["auc"].get<double>() + 0.02);
  for (const char* other : {"--hot 500", "--hot 100000 --servers 2"}) {
    const Outcome same = run_json(base + "--model deepfm " + other);
    ASSERT_EQ(same.rows.size(), 1u);
    EXPECT_GT(same.rows[0]["hot_share"], 0.2);
    EXPECT_EQ(same.rows[0]["train_loss"], cold.rows[0]["train_loss"]) << other;
    EXPECT_EQ(same.rows[0]["test_loss"], cold.rows[0]["test_loss"]) << other;
  }
}

/// Words of one colour stand together: vectors must find that.
class WordTraining : public ::testing::Test {
 protected:
  void SetUp() override {
    std::mt19937 random(11);
    std::ofstream file(path_);
    for (int i = 0; i < 6000; ++i) {
      const char* const colour = random() % 2 == 0 ? "red" : "blue";
      for (int word = 0; word < 5; ++word) file << colour << random() % 12 << ' ';
      file << "and" << random() % 3 << '\n';
    }
  }
  void TearDown() override { std::remove(path_.c_str()); }
  Outcome train(const std::string& flags) {
    return run_json("train --model word2vec --data " + path_ +
                    " --workers 3 --epochs 2 --vector 8 --batch 16 " + flags);
  }
  std::string path_ = ::testing::TempDir() + "sumcast_words.txt";
};

TEST_F(WordTraining, TheLossFallsToTheSameBitsWhicheverWayKeysGo) {
  const Outcome cold = train("--hot 0");
  ASSERT_EQ(cold.rows.size(), 2u);
  EXPECT_LT(cold.rows[0]["test_loss"], 3.9) << "below (negatives + 1) log 2 of vectors of zeros";
  EXPECT_LT(cold.rows[1]["test_loss"], cold.rows[0]["test_loss"].get<double>());
  for (const char* other : {"--hot 20", "--hot 1000 --servers 2"}) {
    const Outcome same = train(other);
    ASSERT_EQ(same.rows.size(), 2u);
    EXPECT_EQ(same.rows[1]["train_loss"], cold.rows[1]["train_loss"]) << other;
    EXPECT_EQ(same.rows[1]["test_loss"], cold.rows[1]["test_loss"]) << other;
  }
}

TEST_F(WordTraining, NeighboursAreOfOneKindAndVectorsCanBeKept) {
  const std::string kept = ::testing::TempDir() + "sumcast_vectors.txt";
  const Outcome outcome = train("--nearest red3 --vectors " + kept);
  ASSERT_EQ(outcome.rows.size(), 3u);
  const auto& nearest = outcome.rows[2]["nearest"];
  ASSERT_EQ(nearest.size(), 10u);
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(nearest[i]["word"].get<std::string>().substr(0, 3), "red") << nearest;
  }
  std::ifstream file(kept);
  size_t words = 0, width = 0, lines = 0;
  file >> words >> width;
  EXPECT_EQ(words, 27u);
  EXPECT_EQ(width, 8u);
  std::string word;
  for (float number = 0; file >> word; ++lines) {
    for (size_t lane = 0; lane < width; ++lane) ASSERT_TRUE(file >> number) << word;
  }
  EXPECT_EQ(lines, words);
  std::remove(kept.c_str());
}

/// Keys age while training reads on: what was hot at the start is not what is hot later.
TEST(HotTracking, FollowsDriftingKeysAndChangesNoBit) {
  const std::string base =
      "train --data ctr-drift --rows 60000 --order file --model lr --workers 3 --batch 16 "
      "--epochs 1 ";
  const Outcome cold = run_json(base + "--hot 0");
  const Outcome fixed = run_json(base + "--hot 1500 --track 0");
  const Outcome tracked = run_json(base + "--hot 1500 --track 20");
  for (const Outcome* outcome : {&cold, &fixed, &tracked}) {
    ASSERT_EQ(outcome->rows.size(), 1u);
    EXPECT_EQ(outcome->rows[0]["train_loss"], cold.rows[0]["train_loss"]);
    EXPECT_EQ(outcome->rows[0]["test_loss"], cold.rows[0]["test_loss"]);
  }
  EXPECT_EQ(fixed.rows[0]["swaps"], 0);
  EXPECT_GT(tracked.rows[0]["swaps"], 3);
  EXPECT_GT(tracked.rows[0]["hot_share"], 1.5 * fixed.rows[0]["hot_share"].get<double>());
}

/// Hot keys that stay hot are left where they are: each new set would cost a move of all rows.
TEST(HotTracking, LetsDataThatStaysAsItIsAlone) {
  const Outcome outcome = run_json(
      "train --data ctr --rows 40000 --model lr --workers 3 --batch 32 --epochs 1 --track 20");
  ASSERT_EQ(outcome.rows.size(), 1u);
  EXPECT_EQ(outcome.rows[0]["swaps"], 0);
  EXPECT_EQ(outcome.rows[0]["hot_shares"].size(), 10u);
}

TEST_F(SparseTraining, BothWaysAreComparedUntilOneLoss) {
  const Outcome outcome = train("--model lr --hot 30 --compare");
  EXPECT_TRUE(outcome.status.ok());
  ASSERT_EQ(outcome.rows.size(), 2u);
  EXPECT_EQ(outcome.rows[0]["path"], "servers");
  EXPECT_EQ(outcome.rows[0]["hot_share"], 0.0);
  EXPECT_EQ(outcome.rows[1]["path"], "dual");
  EXPECT_GT(outcome.rows[1]["hot_share"], 0.1);
  EXPECT_EQ(outcome.rows[1]["losses"], outcome.rows[0]["losses"]);
  EXPECT_EQ(outcome.rows[1]["until_loss"], outcome.rows[0]["losses"][1]);
  EXPECT_EQ(train("--model lr --compare --until-loss 0.000001").status.code, 2);
}

TEST_F(SparseTraining, ClassesAreComparedWithNaiveBayes) {
  const Outcome outcome = train("--model softmax");
  EXPECT_TRUE(outcome.status.ok());
  ASSERT_EQ(outcome.rows.size(), 3u);
  EXPECT_GT(outcome.rows[1]["top_1"], 0.98);
  EXPECT_EQ(outcome.rows[2]["baseline"], "naive-bayes");
  EXPECT_GT(outcome.rows[2]["top_1"], 0.9);
}

TEST_F(SparseTraining, WhatCannotBeTrainedIsAUsageError) {
  for (const char* flags :
       {"--model deepfm --hidden 8,,4", "--order sideways", "--model word2vec --window 0",
        "--model word2vec --vectors /nowhere/at/all", "--model word2vec --nearest zebra",
        "--model svm", "--optimizer lion", "--wire fixed", "--hot many", "--test-share 1",
        "--rate -1"}) {
    EXPECT_EQ(train(flags).status.code, 2) << flags;
  }
}

}  // namespace
}  // namespace sumcast
