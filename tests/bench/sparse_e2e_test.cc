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
  ASSERT_EQ(outcome.rows.size(), 3u);
  for (const auto& row : outcome.rows) EXPECT_EQ(row["wrong"], 0) << row;
  EXPECT_EQ(outcome.rows[0]["path"], "servers");
  EXPECT_EQ(outcome.rows[0]["hot_keys"], 0);
  EXPECT_EQ(outcome.rows[1]["path"], "dual");
  EXPECT_GT(outcome.rows[1]["hot_keys"], 0);
  EXPECT_GT(outcome.rows[1]["hot_share"], 0.1);
  EXPECT_TRUE(outcome.rows[2].contains("chosen"));
}

TEST(SparseBench, ImpossibleFlagsAreUsageErrors) {
  for (const char* flags : {"--skew round", "--path over", "--path dual,dual", "--optimizer lion",
                            "--wire fixed", "--rounds 10 --flush-every 4"}) {
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

TEST_F(SparseTraining, ClassesAreComparedWithNaiveBayes) {
  const Outcome outcome = train("--model softmax");
  EXPECT_TRUE(outcome.status.ok());
  ASSERT_EQ(outcome.rows.size(), 3u);
  EXPECT_GT(outcome.rows[1]["top_1"], 0.98);
  EXPECT_EQ(outcome.rows[2]["baseline"], "naive-bayes");
  EXPECT_GT(outcome.rows[2]["top_1"], 0.9);
}

TEST_F(SparseTraining, WhatCannotBeTrainedIsAUsageError) {
  for (const char* flags : {"--model svm", "--optimizer lion", "--wire fixed", "--hot many",
                            "--test-share 1", "--rate 0"}) {
    EXPECT_EQ(train(flags).status.code, 2) << flags;
  }
}

}  // namespace
}  // namespace sumcast
