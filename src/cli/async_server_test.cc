#include "cli/async_server.h"

#include <gtest/gtest.h>

#include <vector>

#include "api/test_job.h"
#include "trainer/sgd.h"

namespace sumcast::cli {
namespace {

TEST(AsyncServer, EveryGradientIsAppliedOnceAtItsWorkersOwnPace) {
  constexpr size_t kCount = kAsyncChunk + 100;
  constexpr uint32_t kWorkers = 3;
  std::vector<float> weights(kCount, 1.0f);
  with_job(1 + kWorkers, [&](Context& context) {
    Group& group = context.world();
    const trainer::Sgd plain(0.0f);
    if (group.rank() == 0) {
      const auto served = AsyncServer(group, plain, weights).serve();
      EXPECT_TRUE(served.has_value()) << served.error().what;
      return;
    }
    AsyncWorker worker(group);
    const std::vector<float> gradient(kCount, static_cast<float>(group.rank()));
    std::vector<float> mine(kCount);
    const uint32_t steps = 2 * group.rank();  // 2, 4 and 6.
    for (uint32_t step = 1; step <= steps; ++step) {
      const auto done = worker.step(gradient, 0.25f, mine);
      ASSERT_TRUE(done.has_value()) << done.error().what;
      // At least its own gradients are in what it gets back.
      EXPECT_LE(mine[kCount - 1], 1.0f - 0.25f * float(step) * float(group.rank()));
    }
    EXPECT_TRUE(worker.done());
  });
  // 1 - (2 * 1 + 4 * 2 + 6 * 3) / 4, exact in binary whatever the order.
  EXPECT_EQ(weights[0], -6.0f);
  EXPECT_EQ(weights[kCount - 1], -6.0f);
}

TEST(AsyncServer, AWorkerOfAnotherModelIsAnErrorForAll) {
  with_job(2, [&](Context& context) {
    Group& group = context.world();
    const trainer::Sgd plain(0.0f);
    std::vector<float> weights(group.rank() == 0 ? 100 : 99);
    if (group.rank() == 0) {
      EXPECT_FALSE(AsyncServer(group, plain, weights).serve().has_value());
      return;
    }
    const std::vector<float> gradient(99);
    EXPECT_FALSE(AsyncWorker(group).step(gradient, 1.0f, weights).has_value());
  });
}

}  // namespace
}  // namespace sumcast::cli
