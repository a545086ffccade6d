#include "cli/async_server.h"

#include <gtest/gtest.h>

#include <future>
#include <string>
#include <thread>

#include "trainer/sgd.h"

namespace sumcast::cli {
namespace {

/// Runs `body(group)` on every rank of a job on loopback.
template <typename Body>
void with_ranks(uint32_t world, Body body) {
  std::promise<std::string> meeting;
  const std::shared_future<std::string> address = meeting.get_future().share();
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < world; ++rank) {
    threads.emplace_back([&, rank] {
      Options options;
      options.rank = rank;
      options.world = world;
      options.key.emplace();
      options.key->fill(std::byte{0x5A});
      options.timeout = std::chrono::seconds(20);
      if (rank == 0) {
        options.coordinator = "127.0.0.1:0";
        options.on_listening = [&](const std::string& where) { meeting.set_value(where); };
      } else {
        options.coordinator = address.get();
      }
      auto context = Context::create(options);
      ASSERT_TRUE(context.has_value()) << context.error().what;
      body((*context)->world());
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(AsyncServer, EveryGradientIsAppliedOnceAtItsWorkersOwnPace) {
  constexpr size_t kCount = kAsyncChunk + 100;
  constexpr uint32_t kWorkers = 3;
  std::vector<float> weights(kCount, 1.0f);
  with_ranks(1 + kWorkers, [&](Group& group) {
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
  with_ranks(2, [&](Group& group) {
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
