#include "dataset/key_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <unordered_map>

#include "dataset/field_stream.h"
#include "dataset/text_stream.h"

namespace sumcast::dataset {
namespace {

using testing::HasSubstr;

/// Share of the updates that the first `keys` ranks of every field take, by the keys' names.
double share_of_ranks(const std::unordered_map<uint64_t, uint64_t>& counts, uint32_t fields,
                      uint64_t ranks) {
  uint64_t all = 0, top = 0;
  for (const auto& [key, count] : counts) all += count;
  for (uint32_t field = 0; field < fields; ++field) {
    for (uint64_t rank = 0; rank < ranks; ++rank) {
      const auto found = counts.find(FieldStream::key_of(field, rank));
      if (found != counts.end()) top += found->second;
    }
  }
  return static_cast<double>(top) / static_cast<double>(all);
}

TEST(KeyStream, CtrHasTheSharesOfClickLogs) {
  const auto stream = make_key_stream("ctr");
  ASSERT_TRUE(stream);
  EXPECT_EQ((*stream)->vocabulary(), 1'000'000u);
  Prng prng(1);
  std::unordered_map<uint64_t, uint64_t> counts;
  std::vector<uint64_t> keys;
  for (int batch = 0; batch < 400; ++batch) {
    (*stream)->next_batch(256, prng, keys);
    ASSERT_EQ(keys.size(), 256u * 26u);
    for (const uint64_t key : keys) ++counts[key];
  }
  // A field has 38,461 or 38,462 keys: 38, 385 and 3,846 of them are the top .1, 1 and 10 %.
  EXPECT_NEAR(share_of_ranks(counts, 26, 38), .31, .02);
  EXPECT_NEAR(share_of_ranks(counts, 26, 385), .55, .02);
  EXPECT_NEAR(share_of_ranks(counts, 26, 3846), .73, .02);
}

TEST(KeyStream, CtrIsSortedByRank) {
  const SkewLaw law = SkewLaw::clicks();
  EXPECT_NEAR(law.share_of_top(.001), .31, 1e-9);
  EXPECT_NEAR(law.share_of_top(.01), .55, 1e-9);
  EXPECT_NEAR(law.share_of_top(.1), .73, 1e-9);
  EXPECT_NEAR(law.share_of_top(1.0), 1.0, 1e-9);
  double last = 1.0;
  for (double x = 1e-6; x < 0.9; x *= 1.5) {
    const double density = (law.share_of_top(x + 1e-7) - law.share_of_top(x)) / 1e-7;
    EXPECT_GT(density, 0.0);
    if (x > 1e-6) {
      EXPECT_LT(density, last * (1 + 1e-4));
    }
    last = density;
  }
}

TEST(KeyStream, RowsHaveOneKeyOfEachFieldAndNoKeyTwice) {
  for (const char* kind : {"ctr", "flat"}) {
    KeyStreamOptions options;
    options.vocabulary = 2600;
    const auto stream = make_key_stream(kind, options);
    ASSERT_TRUE(stream);
    std::set<uint64_t> known;
    for (uint32_t field = 0; field < 26; ++field) {
      for (uint64_t rank = 0; rank < 100; ++rank) known.insert(FieldStream::key_of(field, rank));
    }
    EXPECT_EQ(known.size(), 2600u);
    Prng prng(2);
    std::vector<uint64_t> keys;
    for (int row = 0; row < 500; ++row) {
      (*stream)->next_batch(1, prng, keys);
      const std::set<uint64_t> distinct(keys.begin(), keys.end());
      EXPECT_EQ(distinct.size(), 26u);
      EXPECT_TRUE(std::includes(known.begin(), known.end(), distinct.begin(), distinct.end()));
    }
  }
}

TEST(KeyStream, FlatTouchesAllKeysAlike) {
  KeyStreamOptions options;
  options.vocabulary = 2600;
  const auto stream = make_key_stream("flat", options);
  ASSERT_TRUE(stream);
  Prng prng(3);
  std::vector<uint64_t> keys;
  (*stream)->next_batch(20'000, prng, keys);
  std::unordered_map<uint64_t, int> counts;
  for (const uint64_t key : keys) ++counts[key];
  ASSERT_EQ(counts.size(), 2600u);
  for (const auto& [key, count] : counts) {  // 200 expected; 6 standard deviations are 85.
    EXPECT_GT(count, 115);
    EXPECT_LT(count, 285);
  }
}

TEST(KeyStream, KeysAreSpreadOverAllOfU64) {
  const auto stream = make_key_stream("ctr");
  ASSERT_TRUE(stream);
  Prng prng(4);
  std::vector<uint64_t> keys;
  (*stream)->next_batch(4000, prng, keys);
  const std::set<uint64_t> distinct(keys.begin(), keys.end());
  std::vector<double> sixteenths(16);
  for (const uint64_t key : distinct) sixteenths[key >> 60] += 1;
  const double expected = static_cast<double>(distinct.size()) / 16;
  for (const double count : sixteenths) EXPECT_NEAR(count, expected, 6 * std::sqrt(expected));
}

TEST(KeyStream, TheSameSeedGivesTheSameKeys) {
  for (const char* kind : {"ctr", "flat"}) {
    const auto stream = make_key_stream(kind);
    ASSERT_TRUE(stream);
    Prng first(5), second(5), other(6);
    std::vector<uint64_t> a, b, c;
    (*stream)->next_batch(64, first, a);
    (*stream)->next_batch(64, second, b);
    (*stream)->next_batch(64, other, c);
    EXPECT_EQ(a, b);
    EXPECT_NE(a, c);
  }
}

TEST(KeyStream, TextRowsHoldDistinctWordsAndPairs) {
  TextStream stream;
  stream.add_row("The cat and the cat");  // the cat and | the-cat cat-and and-the
  stream.add_row("  -- ");
  stream.add_row("C++");
  stream.finish();
  ASSERT_EQ(stream.rows(), 2u);
  EXPECT_EQ(stream.row(0).size(), 6u);
  EXPECT_EQ(stream.row(1).size(), 1u);
  EXPECT_EQ(stream.vocabulary(), 7u);
  Prng prng(7);
  std::vector<uint64_t> keys;
  stream.next_batch(100, prng, keys);
  EXPECT_EQ(std::set<uint64_t>(keys.begin(), keys.end()).size(), 7u);
}

TEST(KeyStream, SaysWhatIsWrong) {
  KeyStreamOptions options;
  EXPECT_THAT(make_key_stream("zipf").error().what, HasSubstr("'zipf'"));
  options.fields = 0;
  EXPECT_THAT(make_key_stream("ctr", options).error().what, HasSubstr("0 fields"));
  options.fields = 26;
  options.vocabulary = 100;
  EXPECT_THAT(make_key_stream("flat", options).error().what, HasSubstr("vocabulary of 100"));
  options.text = "/nowhere/text";
  EXPECT_THAT(make_key_stream("text", options).error().what, HasSubstr("/nowhere/text: No such"));
}

}  // namespace
}  // namespace sumcast::dataset
