#include "cli/word_vectors.h"

#include <gtest/gtest.h>

#include <fstream>

#include "cli/train_order.h"

namespace sumcast::cli {
namespace {

TEST(WordVectors, NearestAreThoseOfTheSmallestAngle) {
  const std::vector<float> vectors = {1, 0, 0, 2, 3, 0.1f, -1, 0, 0, 0};  // f32[5][2]
  const auto near = nearest_words(0, vectors, 2, 10);
  ASSERT_EQ(near.size(), 3u) << "a word without a vector points nowhere";
  EXPECT_EQ(near[0].word, 2u);
  EXPECT_NEAR(near[0].cosine, 0.9994, 1e-3);
  EXPECT_EQ(near[1].word, 1u);
  EXPECT_EQ(near[2].word, 3u);
  EXPECT_NEAR(near[2].cosine, -1.0, 1e-6);
}

TEST(WordVectors, AreWrittenWholeOrNotAtAll) {
  dataset::Vocabulary words;
  words.count("one one two");
  words.finish(1);
  const std::string path = ::testing::TempDir() + "sumcast_vectors_test.txt";
  ASSERT_TRUE(write_vectors(path, words, {1.5f, 2, -3, 0.25f}, 2));
  std::ifstream file(path);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  EXPECT_EQ(text, "2 2\none 1.5 2\ntwo -3 0.25\n");
  std::remove(path.c_str());
  EXPECT_FALSE(write_vectors("/nowhere/vectors", words, {1, 2, 3, 4}, 2).has_value());
  EXPECT_FALSE(check_vector_file("/nowhere/vectors").has_value());
  EXPECT_TRUE(check_vector_file(path).has_value());
}

TEST(TrainOrder, EveryItemIsTakenByOneWorkerInOneStep) {
  TrainOptions options;
  options.workers = 3, options.batch = 4;
  for (const char* order : {"random", "file"}) {
    options.order = order;
    const auto items = epoch_order(29, 2, options);
    std::vector<int> taken(29);
    ASSERT_EQ(steps_of(29, options), 3u);
    for (uint64_t step = 0; step < 3; ++step) {
      for (uint32_t rank = 0; rank < 3; ++rank) {
        for (const uint32_t item : share_of_step(items, step, rank, options)) ++taken[item];
      }
    }
    EXPECT_EQ(taken, std::vector<int>(29, 1)) << order;
  }
  EXPECT_EQ(epoch_order(5, 1, options), (std::vector<uint32_t>{0, 1, 2, 3, 4}));
}

TEST(TrainOrder, AFilesOrderIsSampledFromItsBeginning) {
  TrainOptions options;
  options.order = "file", options.sample = 0.1;
  EXPECT_EQ(sampled(30, options), (std::vector<size_t>{0, 1, 2}));
  options.order = "random";
  const auto places = sampled(1000, options);
  EXPECT_GT(places.size(), 60u);
  EXPECT_GT(places.back(), 900u);
}

}  // namespace
}  // namespace sumcast::cli
