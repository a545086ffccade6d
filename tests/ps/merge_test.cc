// DeclareMergeable: fewer requests and keys at the server, and the same sums.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "job.h"

namespace pstest {
namespace {

using testing::HasSubstr;

constexpr int kWorkers = 4, kRounds = 200;

struct Counts {
  size_t pushes = 0, keys = 0, undeclared = 0;
};

/// What the handlers of all servers have seen.
Counts run(const std::string& name, int servers, Environment more = {}) {
  Job job(servers, kWorkers, std::move(more));
  job.add_all({program("merge"), name, std::to_string(kRounds)}, kWorkers);
  job.expect_success();
  Counts all;
  for (size_t i = 1; i < job.size(); ++i) {
    const std::string output = job.output(i);
    if (i > static_cast<size_t>(servers)) {
      EXPECT_THAT(output, HasSubstr("exact"));
      continue;
    }
    Counts own;
    const size_t at = output.find("pushes ");
    EXPECT_EQ(
        std::sscanf(output.c_str() + std::min(at, output.size()),
                    "pushes %zu keys %zu undeclared %zu", &own.pushes, &own.keys, &own.undeclared),
        3)
        << output;
    all.pushes += own.pushes;
    all.keys += own.keys;
    all.undeclared += own.undeclared;
  }
  return all;
}

TEST(Merge, SumsAreExactAndServersSeeLess) {
  for (const int servers : {1, 2}) {
    const Counts merged = run("sums", servers);
    const Counts each = run("sums", servers, {"SUMCAST_PS_MERGE=0"});
    EXPECT_EQ(each.pushes, static_cast<size_t>(servers * kWorkers * kRounds * 2));
    // Of 500 keys that four workers share and 200 that they do not; how many pushes meet in a sum
    // is a matter of timing, but some do.
    EXPECT_LT(merged.keys, each.keys);
  }
}

TEST(Merge, UnderLossToo) {
  run("sums", 2, {"PS_RESEND=1", "PS_RESEND_TIMEOUT=100", "PS_DROP_MSG=5"});
}

TEST(Merge, WhetherAllKeysAreHotOrFew) {
  run("sums", 2, {"SUMCAST_PS_MERGE_HEAT=0"});
  run("sums", 2, {"SUMCAST_PS_MERGE_HEAT=100", "SUMCAST_PS_MERGE_WAIT=1ms"});
}

TEST(Merge, TheHandlerSeesEachRequestThatWasNotDeclared) {
  EXPECT_EQ(run("mixed", 1).undeclared, static_cast<size_t>(kWorkers * kRounds / 2));
}

TEST(Merge, AWorkerThatSumsIsKilled) {
  for (unsigned seed = 0; seed < 5; seed += kSeedStep) {
    const int servers = 1 + static_cast<int>(seed % 2);
    Job job(servers, kWorkers);
    job.add_all({program("merge"), "orphans", "1000"}, kWorkers);
    const size_t first = static_cast<size_t>(servers) + 1;
    for (size_t i = first; i < job.size(); ++i) ASSERT_TRUE(job.saw(i, "ready")) << job.output(i);
    std::mt19937 random(seed);
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 100000));
    job.process(first).send_signal(SIGKILL);
    for (size_t i = first + 1; i < job.size(); ++i) {
      EXPECT_EQ(job.wait(i), 0) << job.output(i);
      EXPECT_THAT(job.output(i), HasSubstr("exact"));
      EXPECT_THAT(job.output(i), HasSubstr("has died"));
    }
  }
}

/// Kills these processes (indices) of a job with replicas one after another, at moments of its
/// load, and expects that all other workers find exact sums.
void kill_under_load(const std::string& name, int servers, unsigned seed, int rounds,
                     std::vector<size_t> dead) {
  SCOPED_TRACE(name + ", seed " + std::to_string(seed));
  Job job(servers, kWorkers, {"SUMCAST_PS_REPLICAS=1"});
  job.add_all({program("merge"), name, std::to_string(rounds)}, kWorkers);
  const size_t first = static_cast<size_t>(servers) + 1;
  for (size_t i = first; i < job.size(); ++i) ASSERT_TRUE(job.saw(i, "ready")) << job.output(i);
  std::mt19937 random(seed);
  for (const size_t index : dead) {
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 60000));
    job.process(index).send_signal(SIGKILL);
  }
  for (size_t i = first; i < job.size(); ++i) {
    if (std::find(dead.begin(), dead.end(), i) != dead.end()) continue;
    EXPECT_EQ(job.wait(i), 0) << job.output(i);
    EXPECT_THAT(job.output(i), HasSubstr("exact"));
    EXPECT_THAT(job.output(i), testing::AnyOf(HasSubstr("has died"), HasSubstr("stands in for")));
  }
}

TEST(Merge, WithReplicasSumsAreExactAndServersSeeLess) {
  for (const int servers : {2, 3}) {
    const Counts merged = run("sums", servers, {"SUMCAST_PS_REPLICAS=1"});
    const Counts each = run("sums", servers, {"SUMCAST_PS_REPLICAS=1", "SUMCAST_PS_MERGE=0"});
    EXPECT_LT(merged.keys, each.keys);
  }
}

TEST(Merge, AServerWithAReplicaIsKilled) {
  for (unsigned seed = 0; seed < 4; seed += kSeedStep) {
    const int servers = 2 + static_cast<int>(seed % 2);
    kill_under_load("sums", servers, seed, 500, {1 + seed % static_cast<size_t>(servers)});
  }
}

TEST(Merge, AWorkerThatSumsIsKilledWhereServersHaveReplicas) {
  for (unsigned seed = 0; seed < 2; seed += kSeedStep) {
    kill_under_load("orphans", 2, seed, 500, {3});
  }
}

TEST(Merge, AServerAndAWorkerThatSumsAreKilled) {
  for (unsigned seed = 0; seed < 4; seed += kSeedStep) {
    const std::vector<size_t> dead =
        seed % 2 == 0 ? std::vector<size_t>{1, 3} : std::vector<size_t>{4, 2};
    kill_under_load("orphans", 2, seed, 500, dead);
  }
}

TEST(Merge, AllDeclareTheSame) {
  Job job(1, 1, {"SUMCAST_PS_START_TIMEOUT=5s"});
  job.add("scheduler", {program("merge")});
  job.add("server", {program("merge")});
  ASSERT_TRUE(job.saw(0, "neither authenticated"));
  job.add("worker", {program("kv_app")});
  // Whichever of the two comes second is refused.
  for (int i = 0; i < 500; ++i) {
    if ((job.output(1) + job.output(2)).find("DeclareMergeable is for all") != std::string::npos) {
      return;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  ADD_FAILURE() << job.output(1) << job.output(2);
}

}  // namespace
}  // namespace pstest
