// Messages and ends of groups through the public API: ranks are threads, on loopback.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <thread>
#include <vector>

#include "api/test_job.h"
#include "sumcast/meeting.hpp"
#include "sumcast/sumcast.hpp"

namespace sumcast {
namespace {

using ::testing::HasSubstr;

TEST(Exchange, RanksMeetAtAPortThatRankZeroChoseWithAKeyInMemory) {
  with_job(3, [](Context& context) {
    std::vector<float> one(100, 1.0f);
    ASSERT_TRUE(context.world().all_reduce(std::span(one)));
    EXPECT_EQ(one[7], 3.0f);
  });
}

TEST(Exchange, MessagesGoRoundAndCompletionIsTold) {
  with_job(3, [](Context& context) {
    const uint32_t me = context.rank();
    std::vector<uint32_t> out(50000, me), in(50000);
    const Message to{out.data(), 4 * out.size(), (me + 1) % 3, 9, 1};
    const Message from{in.data(), 4 * in.size(), kAnyRank, 9, 1};
    std::atomic<bool> told{false};
    auto work = context.world().exchange_async(std::span(&to, 1), std::span(&from, 1), {},
                                               [&] { told = true; });
    ASSERT_TRUE(work.has_value()) << work.error().what;
    auto done = work->wait();
    ASSERT_TRUE(done.has_value()) << done.error().what;
    EXPECT_EQ(work->source(), (me + 2) % 3);
    EXPECT_EQ(in, std::vector<uint32_t>(50000, (me + 2) % 3));
    ASSERT_TRUE(context.world().barrier());
    while (!told) std::this_thread::yield();
  });
}

TEST(Exchange, ASubGroupCountsItsOwnPlacesAndSelfIsRefused) {
  with_job(3, [](Context& context) {
    if (context.rank() == 0) return;
    auto group = context.new_group({2, 1});
    ASSERT_TRUE(group.has_value()) << group.error().what;
    uint32_t value = context.rank();
    const Message mine{&value, 4, group->rank(), 0, 0};
    const auto refused = group->exchange(std::span(&mine, 1), {});
    ASSERT_FALSE(refused);
    EXPECT_THAT(refused.error().what, HasSubstr("name another place"));
    const Message other{&value, 4, 1 - group->rank(), 0, 0};
    if (context.rank() == 2) {
      ASSERT_TRUE(group->exchange(std::span(&other, 1), {}));
    } else {
      ASSERT_TRUE(group->exchange({}, std::span(&other, 1)));
      EXPECT_EQ(value, 2u);
    }
    ASSERT_TRUE(group->barrier());
  });
}

TEST(Exchange, AnAbortedGroupTellsTheOthers) {
  std::atomic<bool> begun{false}, over{false};
  with_job(2, [&](Context& context) {
    std::vector<float> data(1000, 1.0f);
    ASSERT_TRUE(context.world().all_reduce(std::span(data)));
    EXPECT_FALSE(context.world().aborted());
    if (context.rank() == 1) {
      while (!begun) std::this_thread::yield();  // The other one is through with the first.
      // Posted, so that only the reason can end it on the other rank.
      auto work = context.world().all_reduce_async(data.data(), data.data(), data.size(),
                                                   ElementType::kF32);
      ASSERT_TRUE(work.has_value());
      context.world().abort("rank 1 has had enough");
      ASSERT_TRUE(context.world().aborted());
      EXPECT_THAT(context.world().aborted()->what, HasSubstr("had enough"));
      over = true;
      return;
    }
    begun = true;
    while (!over) std::this_thread::yield();  // Else both may have ended it well.
    const auto failed = context.world().all_reduce(std::span(data));
    ASSERT_FALSE(failed);
    EXPECT_THAT(failed.error().what, HasSubstr("rank 1 ended group 0: rank 1 has had enough"));
  });
}

TEST(Exchange, AnAbortIsAFenceForBaselinesToo) {
  for (const Algorithm algorithm : {Algorithm::kRing, Algorithm::kHalvingDoubling}) {
    std::atomic<bool> over{false};
    with_job(2, [&](Context& context) {
      std::vector<float> data(1 << 20, 1.0f), queued(1 << 20, 1.0f);
      Call call;
      call.algorithm = algorithm;
      ASSERT_TRUE(context.world().all_reduce(std::span(data), Reduction::kSum, call));
      if (context.rank() == 0) {
        while (!over) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        return;
      }
      // The other rank never comes: one is under way, the other one waits for its turn.
      const auto begin = [&](std::vector<float>& tensor) {
        return context.world().all_reduce_async(tensor.data(), tensor.data(), tensor.size(),
                                                ElementType::kF32, Reduction::kSum, call);
      };
      auto first = begin(data);
      auto second = begin(queued);
      ASSERT_TRUE(first.has_value() && second.has_value());
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      context.world().abort("enough");
      EXPECT_TRUE(first->is_done());
      EXPECT_TRUE(second->is_done());
      const auto outcome = second->wait();
      ASSERT_FALSE(outcome);
      EXPECT_THAT(outcome.error().what, HasSubstr("enough"));
      auto late = begin(queued);
      EXPECT_FALSE(late && late->wait());
      EXPECT_EQ(queued, std::vector<float>(1 << 20, 1.0f));
      over = true;
    });
  }
}

/// One rank gathers by messages; the others are to send their part.
Result<void> gather(Group& group, uint32_t number, uint32_t root, std::vector<uint32_t>& values) {
  const uint64_t tag = group.note_call(number, "gather to rank " + std::to_string(root));
  std::vector<Message> sends, receives;
  if (group.rank() != root) sends.push_back({&values[group.rank()], 4, root, tag, 0});
  for (uint32_t peer = 0; peer < group.size() && group.rank() == root; ++peer) {
    if (peer != root) receives.push_back({&values[peer], 4, peer, tag, 0});
  }
  return group.exchange(sends, receives);
}

TEST(Exchange, CallsThatAgreeAreMadeOneAfterTheOther) {
  with_job(3, [](Context& context) {
    for (uint32_t number = 1; number <= 50; ++number) {
      std::vector<uint32_t> values(3, 0);
      values[context.rank()] = number + context.rank();
      ASSERT_TRUE(gather(context.world(), number, number % 3, values));
      if (context.rank() == number % 3) {
        EXPECT_EQ(values, (std::vector<uint32_t>{number, number + 1, number + 2}));
      }
    }
  });
}

TEST(Exchange, ADifferentRootIsAMismatchOnAllRanks) {
  with_job(3, [](Context& context) {
    std::vector<uint32_t> values(3, 7);
    // The last rank may be through, having sent; the next call fails there.
    auto outcome = gather(context.world(), 1, context.rank() == 1 ? 1 : 0, values);
    if (outcome) outcome = context.world().barrier();
    ASSERT_FALSE(outcome);
    EXPECT_EQ(outcome.error().code, ErrorCode::kMismatch) << outcome.error().what;
    EXPECT_THAT(
        outcome.error().what,
        HasSubstr("gather #1 on group 0 does not match: ranks 0 and 2 call gather to rank 0; "
                  "rank 1 calls gather to rank 1"));
  });
}

TEST(Exchange, ARankThatCallsACollectiveInsteadIsAMismatchThoughNoMessageFlows) {
  with_job(2, [](Context& context) {
    std::vector<uint32_t> values(2, 7);
    Result<void> outcome;
    if (context.rank() == 0) {
      outcome = gather(context.world(), 1, 0, values);
    } else {
      context.world().note_call(1, "barrier");
      outcome = context.world().barrier();
    }
    ASSERT_FALSE(outcome);
    EXPECT_EQ(outcome.error().code, ErrorCode::kMismatch) << outcome.error().what;
    EXPECT_THAT(outcome.error().what,
                HasSubstr("rank 0 calls gather to rank 0; rank 1 calls barrier"));
    EXPECT_EQ(values, std::vector<uint32_t>(2, 7));
  });
}

TEST(Meeting, AnAddressIsFoundByRouteAndLoopbackIsLeftOutOnRequest) {
  const auto loopback = reachable_address("127.0.0.1:29500", "", true);
  ASSERT_TRUE(loopback.has_value()) << loopback.error().what;
  EXPECT_EQ(*loopback, "127.0.0.1");
  const auto outside = reachable_address("localhost", "", false);
  if (outside) {
    EXPECT_NE(*outside, "127.0.0.1");
  } else {
    EXPECT_THAT(outside.error().what, HasSubstr("SUMCAST_SOCKET_IFNAME"));
  }
  EXPECT_FALSE(reachable_address("", "=no-such-card", true));
  EXPECT_EQ(host_identity(), host_identity());
}

}  // namespace
}  // namespace sumcast
