// What happens when a collective cannot be completed: every rank learns it, soon, and who it was.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <latch>

#include "mesh/algorithms.h"
#include "mesh/test_world.h"

namespace sumcast::mesh {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

constexpr uint64_t kCount = 200000;

class FailuresTest : public ::testing::Test {
 protected:
  Result<void> sum(uint32_t rank, const MeshCall& call) {
    std::vector<float> data(kCount, 1.0f);
    return ring_all_reduce(world_.mesh(rank), call, data.data(), data.data(), kCount,
                           ElementType::kF32, Reduction::kSum);
  }
  /// One good operation, so that all streams are there.
  void warm_up() {
    expect_success(world_.run([&](uint32_t rank) { return sum(rank, world_.call(rank, 1)); }));
  }

  TestWorld world_{3};
};

TEST_F(FailuresTest, DifferentOperationsAreAMismatchThatNamesBothRanks) {
  const auto outcomes = world_.run([&](uint32_t rank) {
    MeshCall call = world_.call(rank, 1);
    if (rank == 1) call.digest = 0xBAD;
    return sum(rank, call);
  });
  size_t mismatches = 0;
  for (const auto& outcome : outcomes) {
    ASSERT_FALSE(outcome);
    if (outcome.error().code != ErrorCode::kMismatch) continue;
    ++mismatches;
    EXPECT_THAT(outcome.error().what, HasSubstr("rank 1"));
    EXPECT_THAT(outcome.error().what,
                AnyOf(HasSubstr("rank 0 at"), HasSubstr("rank 2"), HasSubstr("and rank 1")));
    EXPECT_THAT(outcome.error().what, HasSubstr("00000bad"));
  }
  EXPECT_GE(mismatches, 1u);
}

TEST_F(FailuresTest, AMismatchIsNoticedBeforeTensorsAreTouched) {
  TestWorld pair(2);
  std::vector<std::vector<float>> data(2, std::vector<float>(kCount, 7.0f));
  const auto outcomes = pair.run([&](uint32_t rank) {
    MeshCall call = pair.call(rank, 1);
    call.digest = rank;
    return broadcast(pair.mesh(rank), call, data[rank].data(), kCount - rank, ElementType::kF32, 0);
  });
  ASSERT_FALSE(outcomes[1]);
  EXPECT_EQ(outcomes[1].error().code, ErrorCode::kMismatch);
  EXPECT_EQ(data[1], std::vector<float>(kCount, 7.0f));
}

TEST_F(FailuresTest, ARankBehindByOneOperationIsAMismatch) {
  const auto outcomes =
      world_.run([&](uint32_t rank) { return sum(rank, world_.call(rank, rank == 2 ? 5 : 4)); });
  for (const auto& outcome : outcomes) EXPECT_FALSE(outcome);
}

TEST_F(FailuresTest, ADeadPeerIsNamedByItsNeighboursAndEndsTheOperationOnAll) {
  warm_up();
  world_.kill(1);
  const auto outcomes = world_.run([&](uint32_t rank) { return sum(rank, world_.call(rank, 2)); });
  size_t named = 0;
  for (const uint32_t rank : {0, 2}) {
    ASSERT_FALSE(outcomes[rank]);
    EXPECT_EQ(outcomes[rank].error().code, ErrorCode::kUnavailable);
    if (outcomes[rank].error().what.find("rank 1 at 127.0.0.1:") != std::string::npos) ++named;
  }
  EXPECT_GE(named, 1u);
}

TEST_F(FailuresTest, APeerThatIsGoneBeforeTheFirstOperationIsNamed) {
  world_.kill(2);
  auto call = world_.call(0, 1);
  const auto outcome = sum(0, call);
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(outcome.error().what, HasSubstr("rank 2"));
}

TEST_F(FailuresTest, APeerThatDoesNotCallIsNamedAtTheDeadline) {
  warm_up();
  MeshCall call = world_.call(0, 2);
  call.deadline = net::monotonic_now() + 50ms;
  const auto outcome = sum(0, call);
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().code, ErrorCode::kTimeout);
  EXPECT_THAT(outcome.error().what, HasSubstr("rank 2 at 127.0.0.1:"));
  EXPECT_THAT(outcome.error().what, HasSubstr("operation 2 of group 0"));
  EXPECT_GE(net::monotonic_now(), call.deadline);
}

TEST_F(FailuresTest, APeerThatNeverOpensItsStreamIsNamedAtTheDeadline) {
  MeshCall call = world_.call(1, 1);
  call.ranks = {Rank(0), Rank(1)};
  call.deadline = net::monotonic_now() + 50ms;
  const auto outcome = sum(1, call);
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().code, ErrorCode::kTimeout);
  EXPECT_THAT(outcome.error().what, HasSubstr("rank 0 at 127.0.0.1:"));
  EXPECT_THAT(outcome.error().what, HasSubstr("has not opened a stream"));
}

/// A stream that breaks, or is refused, is what a death looks like from here; the coordinator knows
/// more, and tells it a moment later.
TEST_F(FailuresTest, WhoFindsAPeerGoneHearsTheReasonThatComesAMomentLater) {
  for (const bool had_streams : {true, false}) {
    TestWorld world(3);
    const auto sum_of = [&](uint32_t sequence) {
      return world.run([&](uint32_t rank) {
        std::vector<float> data(kCount, 1.0f);
        return ring_all_reduce(world.mesh(rank), world.call(rank, sequence), data.data(),
                               data.data(), kCount, ElementType::kF32, Reduction::kSum);
      });
    };
    if (had_streams) expect_success(sum_of(1));
    world.mesh(1).abort(GroupId(0), {ErrorCode::kAborted, "enough"});
    std::thread coordinator([&] {
      std::this_thread::sleep_for(50ms);
      for (const uint32_t rank : {0, 2}) {
        world.mesh(rank).abort(GroupId(0), {ErrorCode::kAborted, "rank 1 ended it: enough"});
      }
    });
    const auto outcomes = sum_of(2);
    coordinator.join();
    for (const uint32_t rank : {0, 2}) {
      ASSERT_FALSE(outcomes[rank]);
      EXPECT_EQ(outcomes[rank].error().what, "rank 1 ended it: enough") << had_streams;
    }
  }
}

TEST_F(FailuresTest, AFailedGroupStaysAbortedUntilItIsClosed) {
  MeshCall call = world_.call(1, 1);
  call.deadline = net::monotonic_now() + 10ms;
  ASSERT_FALSE(sum(1, call));
  const auto again = sum(1, world_.call(1, 2));
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, ErrorCode::kAborted);
  EXPECT_THAT(again.error().what, HasSubstr("group 0 was aborted"));
  for (uint32_t rank = 0; rank < 3; ++rank) world_.mesh(rank).close_group(GroupId(0));
  warm_up();
}

TEST_F(FailuresTest, AbortEndsABlockedOperationWithItsReasonAndSparesOtherGroups) {
  warm_up();
  std::latch begun(1);
  std::thread aborter([&] {
    begun.wait();
    std::this_thread::sleep_for(20ms);  // Most likely blocked by now; the outcome is the same.
    world_.mesh(0).abort(GroupId(0), {ErrorCode::kAborted, "rank 2 died"});
  });
  begun.count_down();
  const auto outcome = sum(0, world_.call(0, 2));
  aborter.join();
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().code, ErrorCode::kAborted);
  EXPECT_EQ(outcome.error().what, "rank 2 died");
  expect_success(
      world_.run([&](uint32_t rank) { return sum(rank, world_.call(rank, 1, GroupId(4))); }));
}

TEST_F(FailuresTest, AbortEndsTheWaitForAStreamToo) {
  std::thread aborter([&] {
    std::this_thread::sleep_for(20ms);
    world_.mesh(2).abort_all();
  });
  const auto outcome = sum(2, world_.call(2, 1));
  aborter.join();
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().code, ErrorCode::kAborted);
}

}  // namespace
}  // namespace sumcast::mesh
