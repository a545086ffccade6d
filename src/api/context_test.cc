// The public API as a program uses it: ranks are threads of this process, on loopback.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <mutex>
#include <thread>
#include <vector>

#include "sumcast/sumcast.hpp"

namespace sumcast {
namespace {

std::string free_coordinator() {
  // Below the ephemeral range, different per test and process.
  // Tests that run at once have neighbouring process ids, and take a few ports each.
  static std::atomic<int> next{20000 + static_cast<int>(::getpid() % 250) * 24};
  return "127.0.0.1:" + std::to_string(next++);
}

/// Ranks that share memory, and ranks that send datagrams as if each were a host of its own.
class ContextOn : public testing::TestWithParam<bool> {
 protected:
  /// Runs `body(context)` on every rank of a fresh job.
  template <typename Body>
  void with_job(uint32_t world, Algorithm algorithm, Body body,
                WireFormat wire = WireFormat::kNative);
};

INSTANTIATE_TEST_SUITE_P(Ranks, ContextOn, testing::Bool(), [](const auto& one_each) {
  return one_each.param ? "OfTheirOwnHosts" : "OfOneHost";
});

template <typename Body>
void ContextOn::with_job(uint32_t world, Algorithm algorithm, Body body, WireFormat wire) {
  const bool one_rank_per_host = GetParam();
  const std::string coordinator = free_coordinator();
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < world; ++rank) {
    threads.emplace_back([=] {
      Options options;
      options.rank = rank;
      options.world = world;
      options.coordinator = coordinator;
      options.insecure = true;
      options.one_rank_per_host = one_rank_per_host;
      options.algorithm = algorithm;
      options.wire = wire;
      options.timeout = std::chrono::seconds(20);
      options.join_timeout = std::chrono::seconds(10);
      auto context = Context::create(options);
      ASSERT_TRUE(context.has_value()) << context.error().what;
      body(**context);
    });
  }
  for (auto& t : threads) t.join();
}

TEST_P(ContextOn, AContextsWireFormatRoundsSumsOfF32AndNothingElse) {
  if (!GetParam()) GTEST_SKIP() << "nothing travels between the ranks of one host";
  const auto body = [](Context& context) {
    const float fine = 1.0f + 1.0f / 1024;  // bf16 has 8 bits of it.
    std::vector<float> data(10, fine);
    ASSERT_TRUE(context.world().all_reduce(std::span(data)));
    EXPECT_EQ(data[3], 2.0f);
    data.assign(10, fine);
    ASSERT_TRUE(context.world().all_reduce(std::span(data), Reduction::kMax));
    EXPECT_EQ(data[3], fine);
    std::vector<double> wide(10, fine);
    ASSERT_TRUE(context.world().all_reduce(std::span(wide)));
    EXPECT_EQ(wide[3], 2.0 * fine);
  };
  with_job(2, Algorithm::kDirect, body, WireFormat::kBF16);
}

TEST_P(ContextOn, ForEverIsALegalTimeout) {
  with_job(2, Algorithm::kDirect, [](Context& context) {
    std::vector<float> data(10, 1.0f);
    Call call;
    call.timeout = std::chrono::nanoseconds::max();
    auto work = context.world().all_reduce_async(data.data(), data.data(), data.size(),
                                                 ElementType::kF32, Reduction::kSum, call);
    ASSERT_TRUE(work);
    const auto done = work->wait(std::chrono::nanoseconds::max());
    EXPECT_TRUE(done) << done.error().what;
  });
}

TEST_P(ContextOn, EveryCollectiveGivesWhatItsNameSays) {
  for (const Algorithm algorithm :
       {Algorithm::kDirect, Algorithm::kRing, Algorithm::kHalvingDoubling}) {
    with_job(3, algorithm, [](Context& context) {
      Group& world = context.world();
      const auto rank = static_cast<int32_t>(context.rank());
      std::vector<int32_t> data(1000, rank + 1);
      ASSERT_TRUE(world.all_reduce(std::span(data)));
      EXPECT_EQ(data, std::vector<int32_t>(1000, 6));

      std::vector<int32_t> in(500, rank), out(500, -1);
      auto r = world.reduce(in.data(), out.data(), 500, ElementType::kI32, Reduction::kMax, 1);
      ASSERT_TRUE(r.has_value()) << r.error().what;
      EXPECT_EQ(out, std::vector<int32_t>(500, rank == 1 ? 2 : -1));

      std::vector<int32_t> sent(700, rank == 2 ? 42 : 0);
      ASSERT_TRUE(world.broadcast(sent.data(), 700, ElementType::kI32, 2));
      EXPECT_EQ(sent, std::vector<int32_t>(700, 42));

      std::vector<int32_t> mine(400, rank), all(1200, -1);
      ASSERT_TRUE(world.all_gather(mine.data(), all.data(), 400, ElementType::kI32));
      for (int i = 0; i < 1200; ++i) ASSERT_EQ(all[i], i / 400);

      std::vector<int32_t> whole(900), part(300, -1);
      for (int i = 0; i < 900; ++i) whole[i] = i + rank;
      ASSERT_TRUE(world.reduce_scatter(whole.data(), part.data(), 300, ElementType::kI32));
      for (int i = 0; i < 300; ++i) ASSERT_EQ(part[i], 3 * (i + 300 * rank) + 3);
      ASSERT_TRUE(world.barrier());
    });
  }
}

TEST_P(ContextOn, ASingleRankIsAJobToo) {
  with_job(1, Algorithm::kAuto, [](Context& context) {
    std::vector<float> data = {1, 2, 3};
    ASSERT_TRUE(context.world().all_reduce(std::span(data), Reduction::kAvg));
    EXPECT_EQ(data, (std::vector<float>{1, 2, 3}));
  });
}

TEST_P(ContextOn, AMismatchIsTheSameErrorOnAllRanksAndTouchesNothing) {
  std::mutex mutex;
  std::vector<std::string> texts;
  with_job(3, Algorithm::kDirect, [&](Context& context) {
    const size_t count = context.rank() == 1 ? 2000 : 1000;
    std::vector<float> in(count, 1.0f), out(count, -7.0f);
    auto r = context.world().all_reduce(in.data(), out.data(), count, ElementType::kF32);
    ASSERT_FALSE(r.has_value());
    EXPECT_EQ(r.error().code, ErrorCode::kMismatch);
    EXPECT_EQ(out, std::vector<float>(count, -7.0f));
    std::lock_guard lock(mutex);
    texts.push_back(r.error().what);
  });
  ASSERT_EQ(texts.size(), 3u);
  EXPECT_EQ(texts[0], texts[1]);
  EXPECT_EQ(texts[0], texts[2]);
  EXPECT_NE(texts[0].find("f32[1000]"), std::string::npos) << texts[0];
  EXPECT_NE(texts[0].find("f32[2000]"), std::string::npos) << texts[0];
}

TEST_P(ContextOn, ARankThatNeverCallsIsNamedAtTheDeadline) {
  with_job(3, Algorithm::kDirect, [](Context& context) {
    if (context.rank() == 2) {
      context.set_tag("in the data loader");
      std::this_thread::sleep_for(std::chrono::milliseconds(1200));
      return;
    }
    std::vector<float> data(100000, 1.0f);
    Call call;
    call.timeout = std::chrono::milliseconds(500);
    auto r = context.world().all_reduce(data.data(), data.data(), data.size(), ElementType::kF32,
                                        Reduction::kSum, call);
    ASSERT_FALSE(r.has_value());
    EXPECT_EQ(r.error().code, ErrorCode::kTimeout);
    EXPECT_NE(r.error().what.find("rank 2"), std::string::npos) << r.error().what;
  });
}

TEST_P(ContextOn, UnsupportedPairsSayWhatIsSupported) {
  with_job(1, Algorithm::kAuto, [](Context& context) {
    float x = 1;
    auto r = context.world().all_reduce(&x, &x, 1, ElementType::kF32, Reduction::kXor);
    ASSERT_FALSE(r.has_value());
    EXPECT_EQ(r.error().code, ErrorCode::kUnsupported);
    EXPECT_NE(r.error().what.find("i32"), std::string::npos) << r.error().what;
  });
}

TEST_P(ContextOn, GroupsComeAndGo) {
  with_job(3, Algorithm::kDirect, [](Context& context) {
    for (int round = 0; round < 20; ++round) {
      auto all = context.new_group({2, 0, 1}, "g" + std::to_string(round));
      ASSERT_TRUE(all.has_value()) << all.error().what;
      std::vector<double> data(50, 0.5);
      ASSERT_TRUE(all->all_reduce(std::span(data)));
      EXPECT_EQ(data[49], 1.5);
      EXPECT_EQ(all->rank(), (context.rank() + 1) % 3);
    }
  });
}

}  // namespace
}  // namespace sumcast
