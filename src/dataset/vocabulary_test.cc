#include "dataset/vocabulary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "dataset/click_log.h"
#include "dataset/texts.h"
#include "dataset/words.h"

namespace sumcast::dataset {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Vocabulary, FrequentWordsComeFirstAndRareOnesNotAtAll) {
  Vocabulary words;
  words.count("Beta alpha, beta gamma");
  words.count("alpha beta C++");
  words.finish(2);
  ASSERT_EQ(words.size(), 2u);
  EXPECT_EQ(words.word(0), "beta");
  EXPECT_EQ(words.word(1), "alpha");
  EXPECT_EQ(words.occurrences(0), 3u);
  EXPECT_EQ(words.total(), 5u);
  EXPECT_EQ(words.find("gamma"), Vocabulary::kUnknown);
}

TEST(WordTexts, UnknownWordsAreLeftOutAndLongTextsCut) {
  Vocabulary words;
  words.count("a b a");
  words.finish(1);
  WordTexts texts;
  texts.add(words, "a x b");
  texts.add(words, "x a");  // One word has no neighbour.
  ASSERT_EQ(texts.size(), 1u);
  EXPECT_THAT(texts.text(0), ElementsAre(0u, 1u));
  std::string endless;
  for (size_t i = 0; i < WordTexts::kWordsMax + 3; ++i) endless += "b ";
  texts.add(words, endless);
  ASSERT_EQ(texts.size(), 3u);
  EXPECT_EQ(texts.text(1).size(), WordTexts::kWordsMax);
  EXPECT_EQ(texts.text(2).size(), 3u);
}

TEST(Texts, AreTheLinesOfAFile) {
  const std::string path = ::testing::TempDir() + "sumcast_texts.txt";
  std::ofstream(path) << "one two\nthree\n";
  std::vector<std::string> lines;
  std::vector<uint64_t> groups;
  const auto read = for_each_text(path, [&](const Text& text) {
    lines.emplace_back(text.words);
    groups.push_back(text.group);
  });
  std::remove(path.c_str());
  ASSERT_TRUE(read.has_value());
  EXPECT_THAT(lines, ElementsAre("one two", "three"));
  EXPECT_THAT(groups, ElementsAre(1u, 2u));
  EXPECT_FALSE(for_each_text(path, [](const Text&) {}).has_value());
}

std::vector<Sample> log_of(const ClickLogOptions& options) {
  auto log = ClickLog::create(options);
  EXPECT_TRUE(log.has_value());
  std::vector<Sample> samples;
  for (Sample sample; (*log)->next(sample).value();) samples.push_back(sample);
  return samples;
}

TEST(ClickLog, HasOneKeyOfEachColumnAndClicksNowAndThen) {
  const auto samples = log_of({.rows = 4000, .vocabulary = 20000});
  ASSERT_EQ(samples.size(), 4000u);
  double clicks = 0;
  for (const Sample& sample : samples) {
    ASSERT_EQ(sample.features.size(), 39u);
    for (uint32_t i = 0; i < 39; ++i) EXPECT_EQ(sample.features[i].field, i + 1);
    clicks += sample.label;
  }
  EXPECT_GT(clicks / 4000, 0.15);
  EXPECT_LT(clicks / 4000, 0.45);
  EXPECT_EQ(log_of({.rows = 50, .vocabulary = 20000})[49].features,
            log_of({.rows = 50, .vocabulary = 20000})[49].features);
}

TEST(ClickLog, KeysAgeWithDriftOnly) {
  const auto shared = [](uint32_t drift) {  // Keys of the first tenth that the last tenth has too.
    const auto samples = log_of({.rows = 5000, .vocabulary = 2600, .drift = drift});
    std::vector<uint64_t> first, last;
    for (size_t i = 0; i < 500; ++i) {
      first.push_back(samples[i].features[20].key);
      last.push_back(samples[4500 + i].features[20].key);
    }
    size_t both = 0;
    for (const uint64_t key : first) both += std::ranges::count(last, key) > 0 ? 1 : 0;
    return both;
  };
  EXPECT_GT(shared(0), 400u);
  EXPECT_EQ(shared(3), 0u);
}

TEST(ClickLog, ImpossibleOptionsAreRefused) {
  EXPECT_THAT(ClickLog::create({.rows = 0}).error().what, HasSubstr("0 rows"));
  EXPECT_THAT(ClickLog::create({.vocabulary = 100}).error().what, HasSubstr("2600 keys"));
}

}  // namespace
}  // namespace sumcast::dataset
