#include <gtest/gtest.h>

#include <latch>
#include <vector>

#include "api/test_job.h"

namespace sumcast {
namespace {

TEST(GroupMesh, WaitingForWhatIsDoneRunsNothingThatWasBegunAfterIt) {
  std::latch waited(1);
  with_job(2, [&](Context& context) {
    const Call ring{Algorithm::kRing};
    std::vector<float> first(1000, 1.0f), second(1000, 1.0f);
    const auto begin = [&](std::vector<float>& data) {
      return context.world().all_reduce_async(data.data(), data.data(), data.size(),
                                              ElementType::kF32, Reduction::kSum, ring);
    };
    auto one = begin(first);
    ASSERT_TRUE(one.has_value()) << one.error().what;
    ASSERT_TRUE(one->wait());
    if (context.rank() == 1) waited.wait();
    auto two = begin(second);
    ASSERT_TRUE(two.has_value()) << two.error().what;
    if (context.rank() == 0) {
      // The other rank has not begun the second sum yet: this must not wait for it.
      EXPECT_TRUE(one->wait());
      EXPECT_FALSE(two->is_done());
      waited.count_down();
    }
    ASSERT_TRUE(two->wait());
    EXPECT_EQ(second[999], 2.0f);
  });
}

/// Only ranks next to each other in the ring compare what they call; the others hear of it.
TEST(GroupMesh, AMismatchInARingIsOneOnAllRanks) {
  with_job(3, [&](Context& context) {
    const size_t count = context.rank() == 1 ? 2000 : 1000;
    std::vector<float> data(count, 1.0f);
    const Call ring{Algorithm::kRing};
    const auto done = context.world().all_reduce(data.data(), data.data(), count, ElementType::kF32,
                                                 Reduction::kSum, ring);
    ASSERT_FALSE(done.has_value());
    EXPECT_EQ(done.error().code, ErrorCode::kMismatch) << done.error().what;
  });
}

}  // namespace
}  // namespace sumcast
