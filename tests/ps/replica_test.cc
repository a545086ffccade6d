// SUMCAST_PS_REPLICAS: servers die under load, and every sum is exact all the same.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <random>
#include <string>
#include <thread>

#include "job.h"

namespace pstest {
namespace {

using testing::HasSubstr;

/// The processes of a job: the scheduler is 0, then servers, then workers.
constexpr size_t kScheduler = 0, kServer0 = 1;
constexpr int kWorkers = 3;

class Replica : public testing::Test {
 protected:
  /// Starts a job, and returns when all workers are under way.
  void start(const std::string& name, int servers, int rounds, Environment more = {}) {
    more.push_back("SUMCAST_PS_REPLICAS=1");
    first_worker_ = kServer0 + static_cast<size_t>(servers);
    job_.emplace(servers, kWorkers, std::move(more));
    job_->add_all({program("replica"), name, std::to_string(rounds)}, kWorkers);
    for (size_t i = first_worker_; i < job_->size(); ++i) {
      ASSERT_TRUE(job_->saw(i, "ready")) << job_->output(i);
    }
  }

  void signal_at(std::chrono::microseconds wait, size_t index, int signal) {
    std::this_thread::sleep_for(wait);
    job_->process(index).send_signal(signal);
  }

  /// All but the dead end well, and workers found every value as it should be.
  void expect_exact(size_t dead, size_t other = SIZE_MAX) {
    for (size_t i = 0; i < job_->size(); ++i) {
      if (i == dead || i == other) continue;
      EXPECT_EQ(job_->wait(i), 0) << "process " << i << ":\n" << job_->output(i);
      if (i >= first_worker_) {
        EXPECT_THAT(job_->output(i), HasSubstr("exact"));
      }
      EXPECT_THAT(job_->output(i), HasSubstr("another server stands in for server"));
    }
    EXPECT_THAT(job_->output(kScheduler), HasSubstr("dead: "));
  }

  std::optional<Job> job_;
  size_t first_worker_ = 0;
};

/// A moment within the load, another one for each seed.
std::chrono::microseconds moment(size_t seed) {
  std::mt19937 random(static_cast<unsigned>(seed));
  return std::chrono::microseconds(random() % 100000);
}

TEST_F(Replica, WithoutADeathNothingChanges) {
  for (const int servers : {2, 3}) {
    start("load", servers, 200);
    job_->expect_success();
  }
}

TEST_F(Replica, AServerIsKilledUnderLoad) {
  for (size_t seed = 0; seed < 6; seed += kSeedStep) {
    const size_t servers = 2 + seed % 2, victim = kServer0 + seed % servers;
    const char* const partition = seed < 3 ? "hash" : "ranges";
    start("load", static_cast<int>(servers), 1500,
          {std::string("SUMCAST_PS_PARTITION=") + partition});
    signal_at(moment(seed), victim, SIGKILL);
    expect_exact(victim);
  }
}

TEST_F(Replica, ResponsesThatComeLaterFromAnotherThread) {
  for (size_t seed = 0; seed < 3; seed += kSeedStep) {
    start("deferred", 2, 1500);
    signal_at(moment(seed), kServer0 + seed % 2, SIGKILL);
    expect_exact(kServer0 + seed % 2);
  }
}

TEST_F(Replica, LargeArraysLentAndSent) {
  for (const char* const lend : {"1", "0"}) {
    start("large", 2, 300, {std::string("SUMCAST_PS_LEND=") + lend});
    signal_at(moment(1), kServer0, SIGKILL);
    expect_exact(kServer0);
  }
}

TEST_F(Replica, WhatTheBackupDidNotGetWasNotAcknowledged) {
  // As when a host dies: what it had sent, and was lost, it does not send again.
  for (size_t seed = 0; seed < 5; seed += kSeedStep) {
    const Environment lossy = {"PS_DROP_MSG=30", "SUMCAST_PS_DROP_SEED=" + std::to_string(seed)};
    job_.emplace(2, kWorkers,
                 Environment{"SUMCAST_PS_REPLICAS=1", "PS_RESEND=1", "PS_RESEND_TIMEOUT=50"});
    const std::vector<std::string> command = {program("replica"), "load", "100"};
    job_->add("scheduler", command);
    job_->add("server", command);
    job_->add("server", command, lossy);
    for (int i = 0; i < kWorkers; ++i) job_->add("worker", command);
    first_worker_ = 3;
    ASSERT_TRUE(job_->saw(first_worker_, "ready"));
    signal_at(moment(seed), kServer0, SIGKILL);
    expect_exact(kServer0);
  }
}

TEST_F(Replica, AServerThatStandsStillIsNoServer) {
  start("load", 2, 1500);
  signal_at(moment(3), kServer0, SIGSTOP);
  // It wakes up when others have its keys, and is told so.
  std::thread later([&] { signal_at(std::chrono::seconds(4), kServer0, SIGCONT); });
  expect_exact(kServer0);
  later.join();
  EXPECT_NE(job_->wait(kServer0), 0);
}

TEST_F(Replica, EveryOtherServerMayDie) {
  start("load", 4, 4000);
  size_t ranks[4] = {};  // Processes by rank.
  for (size_t i = kServer0; i < first_worker_; ++i) {
    ASSERT_TRUE(job_->saw(i, "rank "));
    const std::string output = job_->output(i);
    ranks[output[output.find("rank ") + 5] - '0'] = i;
  }
  signal_at(moment(6), ranks[0], SIGKILL);
  ASSERT_TRUE(job_->saw(first_worker_, "stands in for server 0"));
  signal_at(moment(7), ranks[2], SIGKILL);
  expect_exact(ranks[0], ranks[2]);
  EXPECT_THAT(job_->output(kScheduler), HasSubstr("stands in for server 2"));
}

TEST_F(Replica, ASecondDeathLosesWhatTheFirstHadMoved) {
  start("load", 2, 100000);
  signal_at(moment(4), kServer0, SIGKILL);
  ASSERT_TRUE(job_->saw(first_worker_, "another server stands in"));
  signal_at(moment(5), kServer0 + 1, SIGKILL);
  for (size_t i = first_worker_; i < job_->size(); ++i) {
    EXPECT_NE(job_->wait(i), 0);
    EXPECT_THAT(job_->output(i), HasSubstr("has died"));
  }
}

TEST_F(Replica, AllProcessesOrNoneHaveIt) {
  Job job(2, 1, {"SUMCAST_PS_REPLICAS=1", "SUMCAST_PS_START_TIMEOUT=5s"});
  job.add("scheduler", {program("replica")});
  job.add("worker", {program("replica")}, {"SUMCAST_PS_REPLICAS=0"});
  EXPECT_NE(job.wait(1), 0);
  EXPECT_THAT(job.output(1), HasSubstr("SUMCAST_PS_REPLICAS is not the same there"));
  Job alone(1, 1, {"SUMCAST_PS_REPLICAS=1"});
  alone.add("scheduler", {program("replica")});
  EXPECT_NE(alone.wait(0), 0);
  EXPECT_THAT(alone.output(0), HasSubstr("SUMCAST_PS_REPLICAS=1: must be 0 unless"));
}

}  // namespace
}  // namespace pstest
