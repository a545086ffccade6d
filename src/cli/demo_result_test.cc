#include "cli/demo_result.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sumcast::cli {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

WorkerResult worker(Duration step, std::vector<Duration> reductions) {
  WorkerResult result;
  result.step_median = step;
  result.losses.assign(reductions.size(), 1.0f);
  result.reductions = std::move(reductions);
  result.gradient_bytes = 1000;
  result.weights_hash = 7;
  return result;
}

/// Two workers, three steps; in each step another one comes late and waits less.
MethodRun two_workers() {
  MethodRun run;
  run.workers = {worker(30ms, {9ms, 2ms, 8ms}), worker(31ms, {3ms, 9ms, 4ms})};
  run.workers[0].accuracy = 0.88;
  return run;
}

MethodOutcome outcome_of(const char* name, uint64_t hash, double accuracy = 0.88) {
  MethodOutcome outcome;
  outcome.method = demo_method_from_name(name).value();
  outcome.weights = {hash, hash};
  outcome.accuracy = accuracy;
  return outcome;
}

TEST(DemoResult, CommunicationIsWhatTheLastToArriveWaits) {
  const auto outcome = summarise(demo_methods()[0], two_workers());
  ASSERT_TRUE(outcome.has_value()) << outcome.error().what;
  EXPECT_EQ(outcome->communication, 3ms);  // The median of 3, 2 and 4.
  EXPECT_EQ(outcome->step, 31ms);
  EXPECT_EQ(outcome->accuracy, 0.88);
  EXPECT_EQ(outcome->gradient_bytes, 1000u);
  EXPECT_THAT(outcome->weights, ElementsAre(7u, 7u));
}

TEST(DemoResult, BytesAreTheMeanOverWorkersPerStepAndLinksCountFirst) {
  MethodRun run = two_workers();
  EXPECT_FALSE(summarise(demo_methods()[0], run)->bytes_per_worker.has_value());
  run.workers[0].datagram_bytes = 600;
  run.workers[1].datagram_bytes = 660;
  EXPECT_EQ(summarise(demo_methods()[0], run)->bytes_per_worker, 210u);
  run.link_bytes = {3000, 3600};
  EXPECT_EQ(summarise(demo_methods()[0], run)->bytes_per_worker, 1100u);
}

TEST(DemoResult, RefusesResultsOfDifferentLength) {
  MethodRun run = two_workers();
  run.workers[1].reductions.pop_back();
  const auto outcome = summarise(demo_methods()[0], run);
  ASSERT_FALSE(outcome.has_value());
  EXPECT_EQ(outcome.error().code, ErrorCode::kInternal);
  run = two_workers();
  run.workers[0].accuracy.reset();
  EXPECT_FALSE(summarise(demo_methods()[0], run).has_value());
}

TEST(DemoResult, KeptPromisesAreNotMentioned) {
  const std::vector<MethodOutcome> all = {
      outcome_of("in-network", 1, 0.8800), outcome_of("in-network-bf16", 2, 0.8825),
      outcome_of("direct", 1), outcome_of("ring", 3, 0.8850), outcome_of("server", 1)};
  EXPECT_THAT(broken_promises(all, true), IsEmpty());
  for (const MethodOutcome& outcome : all) EXPECT_TRUE(identical(outcome, all));
}

TEST(DemoResult, ACanonicalMethodWithOtherBitsIsNamed) {
  const std::vector<MethodOutcome> all = {outcome_of("in-network", 1), outcome_of("direct", 2),
                                          outcome_of("ring", 3), outcome_of("server", 1)};
  EXPECT_THAT(broken_promises(all, false),
              ElementsAre(HasSubstr("direct differ from in-network, server")));
  EXPECT_FALSE(identical(all[0], all));
  EXPECT_FALSE(identical(all[1], all));
  EXPECT_TRUE(identical(all[2], all));
}

TEST(DemoResult, ARankThatDriftedIsReportedForEveryMethod) {
  std::vector<MethodOutcome> all = {outcome_of("ring", 3)};
  all[0].weights[1] = 4;
  EXPECT_THAT(broken_promises(all, false),
              ElementsAre(AllOf(HasSubstr("ring: "), HasSubstr("0000000000000004"))));
  EXPECT_FALSE(identical(all[0], all));
}

TEST(DemoResult, AccuracyIsHeldAgainstFullRunsOnly) {
  const std::vector<MethodOutcome> all = {outcome_of("in-network", 1, 0.8651),
                                          outcome_of("ring", 3, 0.8599)};
  EXPECT_THAT(broken_promises(all, false), IsEmpty());
  EXPECT_THAT(broken_promises(all, true),
              ElementsAre(HasSubstr("ring: test accuracy is 85.99 %, at least 86 %"),
                          HasSubstr("lie 0.52 points apart (ring 85.99 %, in-network 86.51 %)")));
}

}  // namespace
}  // namespace sumcast::cli
