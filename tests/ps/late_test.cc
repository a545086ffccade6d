// Frames of a worker that are read when its death is known: a push that was handled is not handled
// again. Processes are stopped and killed such that there is only one order of events.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <optional>
#include <string>
#include <thread>

#include "job.h"

namespace pstest {
namespace {

using testing::HasSubstr;
using testing::Not;

class Late : public testing::Test {
 protected:
  void start(const std::string& name, int servers, int workers, Environment more) {
    more.push_back("PS_HEARTBEAT_TIMEOUT=40s");     // Who stands still for a while is not dead.
    more.push_back("SUMCAST_PS_PARTITION=ranges");  // All keys are server 0's.
    servers_ = static_cast<size_t>(servers);
    job_.emplace(servers, workers, std::move(more));
    job_->add_all({program("late"), name}, workers);
    for (size_t i = 1; i < job_->size(); ++i) ASSERT_TRUE(job_->saw(i, "rank ")) << job_->output(i);
  }

  size_t server(int rank) const { return find(1, 1 + servers_, rank); }
  size_t worker(int rank) const { return find(1 + servers_, job_->size(), rank); }

  /// The one who looks found each key once, long after `late` had read all.
  void expect_once(size_t late, const std::string& dead, size_t who_looks) {
    job_->process(late).send_signal(SIGCONT);
    ASSERT_TRUE(job_->saw(late, dead + " has died")) << job_->output(late);
    job_->process(who_looks).send_signal(SIGUSR1);
    ASSERT_TRUE(job_->saw(who_looks, "looked")) << job_->output(who_looks);
    EXPECT_THAT(job_->output(who_looks), HasSubstr("found 64\n"));
    EXPECT_THAT(job_->output(who_looks), Not(testing::ContainsRegex("found (6[^4]|[^6])")));
  }

  std::optional<Job> job_;

 private:
  size_t find(size_t from, size_t end, int rank) const {
    const std::string line = "rank " + std::to_string(rank) + "\n";
    for (size_t i = from; i < end; ++i) {
      if (job_->output(i).find(line) != std::string::npos) return i;
    }
    ADD_FAILURE() << "nobody is " << line;
    return 0;
  }

  size_t servers_ = 0;
};

/// So that what a process sends when it hears of a death has left it.
void let_it_send() { std::this_thread::sleep_for(std::chrono::milliseconds(300)); }

TEST_F(Late, ADeadWorkersPushIsNotHandledAgainByWhoStandsIn) {
  start("stand-in", 2, 2, {"SUMCAST_PS_REPLICAS=1"});
  const size_t first = server(0), second = server(1), pusher = worker(0);
  ASSERT_TRUE(job_->saw(first, "added 64"));
  ASSERT_TRUE(job_->saw(second, "added 64")) << "the log";
  job_->process(second).send_signal(SIGSTOP);
  job_->process(first).send_signal(SIGKILL);
  ASSERT_TRUE(job_->saw(pusher, "another server stands in"));
  let_it_send();
  job_->process(pusher).send_signal(SIGKILL);
  ASSERT_TRUE(job_->saw(0, "worker 0 (id 9) has died"));
  expect_once(second, "worker 0 (id 9)", worker(1));
}

TEST_F(Late, ADeadWorkersPartIsNotHandledAgainWhenItsAggregatorHasDied) {
  start("replay", 1, 3, {"SUMCAST_PS_MERGE_HEAT=0"});
  const size_t aggregator = worker(0), pusher = worker(1);
  ASSERT_TRUE(job_->saw(server(0), "added 64"));
  job_->process(server(0)).send_signal(SIGSTOP);
  job_->process(aggregator).send_signal(SIGKILL);
  ASSERT_TRUE(job_->saw(pusher, "worker 0 (id 9) has died"));
  let_it_send();
  job_->process(pusher).send_signal(SIGKILL);
  ASSERT_TRUE(job_->saw(0, "worker 1 (id 11) has died"));
  expect_once(server(0), "worker 1 (id 11)", worker(2));
}

}  // namespace
}  // namespace pstest
