// Slicing and gathering (include/ps/internal), and SArray.
#include "ps/internal/kv_pairs.h"

#include <gtest/gtest.h>

#include <set>

#include "base/prng.h"
#include "ps/internal/kv_gather.h"
#include "ps/range.h"

namespace sumcast::ps {
namespace {

using ::ps::Key;
using ::ps::kMaxKey;
using ::ps::KVPairs;
using ::ps::KVSlices;
using ::ps::SArray;

std::vector<::ps::Range> ranges_of(uint64_t servers) {
  std::vector<::ps::Range> ranges;
  const uint64_t width = kMaxKey / servers;
  for (uint64_t i = 0; i < servers; ++i) {
    ranges.emplace_back(width * i, i + 1 == servers ? kMaxKey : width * (i + 1));
  }
  return ranges;
}

KVPairs<float> random_pairs(Prng& prng, bool with_lens) {
  std::set<Key> keys = {0, kMaxKey};
  const size_t count = prng.below(50);
  for (size_t i = 0; i < count; ++i)
    keys.insert(prng.chance(0.5) ? prng.next_u64() : prng.below(90));
  KVPairs<float> pairs;
  pairs.keys.CopyFrom(keys.begin(), keys.end());
  for (size_t i = 0; i < keys.size(); ++i) {
    const int length = with_lens ? static_cast<int>(prng.below(4)) : 3;
    if (with_lens) pairs.lens.push_back(length);
    for (int j = 0; j < length; ++j) pairs.vals.push_back(static_cast<float>(prng.below(1000)));
  }
  return pairs;
}

TEST(KvPairs, SlicesGatherToWhatTheyWere) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    Prng prng(seed);
    const bool with_lens = seed % 2 == 0, hashed = seed % 3 == 0;
    const size_t servers = 1 + prng.below(7);
    const KVPairs<float> pairs = random_pairs(prng, with_lens);
    ::ps::internal::CheckPairs(pairs);
    KVSlices<float> slices;
    if (hashed) {
      ::ps::internal::SliceByHash(pairs, servers, &slices);
    } else {
      ::ps::internal::SliceByRanges(pairs, ranges_of(servers), &slices);
    }
    ASSERT_EQ(slices.size(), servers);
    std::vector<KVPairs<float>> parts;
    for (const auto& slice : slices) {
      EXPECT_EQ(slice.first, !slice.second.keys.empty());
      if (!slice.first) continue;
      ::ps::internal::CheckPairs(slice.second);
      parts.push_back(slice.second);
    }
    std::reverse(parts.begin(), parts.end());  // Responses come in any order.
    std::vector<float> vals;
    std::vector<int> lens;
    ASSERT_EQ(::ps::internal::Gather(pairs.keys, &parts, hashed ? servers : 0, &vals, &lens), "");
    ASSERT_EQ(vals.size(), pairs.vals.size());
    EXPECT_TRUE(std::equal(vals.begin(), vals.end(), pairs.vals.begin()));
    for (size_t i = 0; i < lens.size(); ++i) EXPECT_EQ(lens[i], with_lens ? pairs.lens[i] : 3);
  }
}

TEST(KvPairs, TheLastServerOwnsTheLargestKeyWhateverTheirNumber) {
  for (uint64_t servers = 1; servers <= 9; ++servers) {
    KVPairs<float> pairs;
    pairs.keys = {kMaxKey};
    pairs.vals = {1.0f};
    KVSlices<float> slices;
    ::ps::internal::SliceByRanges(pairs, ranges_of(servers), &slices);
    EXPECT_TRUE(slices.back().first);
  }
}

TEST(KvPairs, HashingSpreadsSmallIdsEvenly) {
  constexpr size_t kServers = 7, kIds = 70000;
  std::vector<size_t> counts(kServers, 0);
  for (Key key = 0; key < kIds; ++key) ++counts[::ps::internal::HashedServer(key, kServers)];
  for (size_t count : counts) EXPECT_NEAR(static_cast<double>(count), 10000.0, 400.0);
}

TEST(KvPairs, KeysOfOneServerAreNotCopiedByHashEither) {
  KVPairs<float> pairs;
  pairs.keys = {77};
  pairs.vals = {1, 2, 3};
  pairs.lens = {3};
  KVSlices<float> slices;
  ::ps::internal::SliceByHash(pairs, 5, &slices);
  const size_t server = ::ps::internal::HashedServer(77, 5);
  for (size_t i = 0; i < slices.size(); ++i) EXPECT_EQ(slices[i].first, i == server);
  EXPECT_EQ(slices[server].second.keys.data(), pairs.keys.data());
  EXPECT_EQ(slices[server].second.vals.data(), pairs.vals.data());
  EXPECT_EQ(slices[server].second.lens[0], 3);
  pairs.vals.clear();  // A pull: where lengths will be stored is not sent.
  ::ps::internal::SliceByHash(pairs, 5, &slices);
  EXPECT_TRUE(slices[server].second.lens.empty());
}

TEST(KvPairs, AnswersThatDoNotFitAreToldAndChangeNothing) {
  const SArray<Key> keys = {1, 2, 3};
  const auto gather = [&](std::vector<KVPairs<float>> parts, size_t hashed) {
    std::vector<float> vals(3, 7.0f);
    std::vector<int>* const no_lens = nullptr;
    const std::string problem = ::ps::internal::Gather(keys, &parts, hashed, &vals, no_lens);
    EXPECT_EQ(vals, std::vector<float>(problem.empty() ? 3 : 3, problem.empty() ? 1.0f : 7.0f));
    return problem;
  };
  const auto part = [](const SArray<Key>& k, size_t vals) {
    KVPairs<float> made;
    made.keys = k;
    made.vals.resize(vals, 1.0f);
    return made;
  };
  EXPECT_EQ(gather({part({1, 2, 3}, 3)}, 0), "");
  EXPECT_EQ(gather({part({3}, 1), part({1, 2}, 2)}, 0), "");
  for (const size_t hashed : {0u, 2u}) {
    EXPECT_NE(gather({part({1, 2, 4}, 3)}, hashed), "");
    EXPECT_NE(gather({part({1, 2}, 2)}, hashed), "");
    EXPECT_NE(gather({part({1, 2, 3}, 4)}, hashed), "");
    EXPECT_NE(gather({part({1, 2, 3}, 6)}, hashed), "");
    EXPECT_NE(gather({}, hashed), "");
  }
}

TEST(KvPairs, PartsThatStandInTheCallersArrayAreUsedWhereTheyAreOrMoved) {
  const SArray<Key> keys = {1, 2, 3};
  std::vector<int>* const no_lens = nullptr;
  const auto part = [](const SArray<Key>& k, float* at, size_t vals) {
    KVPairs<float> made;
    made.keys = k;
    made.vals = SArray<float>(at, vals);
    return made;
  };
  std::vector<float> vals = {10, 20, 30};
  std::vector<KVPairs<float>> in_place = {part({3}, vals.data() + 2, 1),
                                          part({1, 2}, vals.data(), 2)};
  EXPECT_EQ(::ps::internal::Gather(keys, &in_place, 0, &vals, no_lens), "");
  EXPECT_EQ(vals, std::vector<float>({10, 20, 30}));
  // The first part is longer than it was thought to be, so the second one's place is another.
  float longer[2] = {1, 2};
  std::vector<KVPairs<float>> misplaced = {part({1}, longer, 2), part({2}, vals.data() + 1, 1),
                                           part({3}, longer, 0)};
  misplaced[0].lens = {2};
  misplaced[1].lens = {1};
  misplaced[2].lens = {0};
  EXPECT_EQ(::ps::internal::Gather(keys, &misplaced, 0, &vals, no_lens), "");
  EXPECT_EQ(vals, std::vector<float>({1, 2, 20}));
}

TEST(SArray, CopiesShareAndSegmentsAreViews) {
  SArray<int> a = {1, 2, 3, 4};
  SArray<int> b = a;
  const SArray<int> c = a.segment(1, 3);
  b[1] = 20;
  EXPECT_EQ(a[1], 20);
  EXPECT_EQ(c[0], 20);
  EXPECT_EQ(c.size(), 2u);
  a.push_back(5);  // Moves a to new memory.
  a[0] = 9;
  EXPECT_EQ(b[0], 1);
  EXPECT_THROW(b.segment(1, 5), dmlc::Error);
}

TEST(SArray, BytesAsAnotherTypeAndBack) {
  const SArray<float> floats = {1.0f, 2.0f};
  const SArray<char> bytes(floats);
  EXPECT_EQ(bytes.size(), 8u);
  SArray<float> again;
  again = bytes;
  EXPECT_EQ(again.data(), floats.data());
  EXPECT_THROW(SArray<float>(bytes.segment(0, 3)), dmlc::Error);
}

TEST(SArray, OwnsWhatItWasGivenAndGrows) {
  int deleted = 0;
  int memory[3] = {1, 2, 3};
  {
    SArray<int> a;
    a.reset(memory, 3, [&](int*) { ++deleted; });
    const SArray<int> b = a;
    a.resize(5, 7);
    EXPECT_EQ(a[4], 7);
    EXPECT_EQ(a[2], 3);
    EXPECT_EQ(deleted, 0);
  }
  EXPECT_EQ(deleted, 1);
  SArray<int> grown(2, 1);
  grown.append(grown);
  grown.pop_back();
  const SArray<int> odd = {1, 3, 5, 7};
  EXPECT_EQ(::ps::DebugStr(grown.data(), grown.size()), "[3]: 1 1 1 ");
  EXPECT_EQ(::ps::FindRange(odd, 3, 6).size(), 2u);
}

}  // namespace
}  // namespace sumcast::ps
