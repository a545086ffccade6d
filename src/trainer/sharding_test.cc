#include "trainer/sharding.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace sumcast::trainer {
namespace {

std::vector<uint32_t> epoch_of(Place place, size_t images, size_t batch, uint64_t epoch,
                               uint64_t seed = 1) {
  BatchSampler sampler(place, images, batch, seed);
  sampler.start_epoch(epoch);
  std::vector<uint32_t> all;
  for (size_t step = 0; step < sampler.steps_per_epoch(); ++step) {
    const auto indices = sampler.indices(step);
    all.insert(all.end(), indices.begin(), indices.end());
  }
  return all;
}

TEST(BatchSampler, RanksShareTheImagesAndDropTheRaggedTail) {
  std::set<uint32_t> seen;
  size_t total = 0;
  for (uint16_t rank = 0; rank < 3; ++rank) {
    const auto part = epoch_of({Rank(rank), 3}, 100, 8, 0);  // 4 steps of 24, 4 left over.
    EXPECT_EQ(part.size(), 32u);
    total += part.size();
    seen.insert(part.begin(), part.end());
  }
  EXPECT_EQ(seen.size(), total);
  EXPECT_LT(*seen.rbegin(), 100u);
}

TEST(BatchSampler, AStepOfTwoWorkersIsAStepOfOneWithTwiceTheBatch) {
  BatchSampler one({Rank(0), 1}, 100, 16, 1);
  BatchSampler left({Rank(0), 2}, 100, 8, 1), right({Rank(1), 2}, 100, 8, 1);
  for (BatchSampler* sampler : {&one, &left, &right}) sampler->start_epoch(2);
  ASSERT_EQ(one.steps_per_epoch(), left.steps_per_epoch());
  for (size_t step = 0; step < one.steps_per_epoch(); ++step) {
    std::vector<uint32_t> both(left.indices(step).begin(), left.indices(step).end());
    both.insert(both.end(), right.indices(step).begin(), right.indices(step).end());
    EXPECT_TRUE(std::ranges::equal(both, one.indices(step)));
  }
}

TEST(BatchSampler, OrdersDifferByEpochAndSeedAndRepeatOtherwise) {
  const Place alone{Rank(0), 1};
  EXPECT_EQ(epoch_of(alone, 100, 10, 3), epoch_of(alone, 100, 10, 3));
  EXPECT_NE(epoch_of(alone, 100, 10, 3), epoch_of(alone, 100, 10, 4));
  EXPECT_NE(epoch_of(alone, 100, 10, 3, 1), epoch_of(alone, 100, 10, 3, 2));
  EXPECT_NE(epoch_of(alone, 100, 10, 4, 1), epoch_of(alone, 100, 10, 3, 2));
}

TEST(BatchSampler, HasNoStepsWhenImagesAreTooFew) {
  EXPECT_EQ(BatchSampler({Rank(0), 4}, 31, 8, 1).steps_per_epoch(), 0u);
}

}  // namespace
}  // namespace sumcast::trainer
