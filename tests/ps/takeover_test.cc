// Servers die or leave at chosen moments; what a program sent counts once, in its order, and
// nothing waits for who is gone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <string>

#include "job.h"

namespace pstest {
namespace {

using testing::HasSubstr;
using testing::Not;

/// The processes of a job: the scheduler is 0, then servers, then the worker.
constexpr size_t kScheduler = 0, kServer0 = 1;

class Takeover : public testing::Test {
 protected:
  void start(const std::string& name, int servers = 2, Environment more = {}) {
    more.push_back("SUMCAST_PS_PARTITION=ranges");
    more.push_back("SUMCAST_PS_WAIT_TIMEOUT=20s");
    more.push_back("PS_HEARTBEAT_TIMEOUT=40s");  // Who stands still for a while is not dead.
    job_.emplace(servers, 1, std::move(more));
    worker_ = kServer0 + static_cast<size_t>(servers);
    job_->add_all({program("takeover"), name}, 1);
  }

  /// The worker ends well, and found what it should.
  void expect_right() {
    EXPECT_EQ(job_->wait(worker_), 0) << job_->output(worker_);
    EXPECT_THAT(job_->output(worker_), HasSubstr("right\n"));
  }

  std::optional<Job> job_;
  size_t worker_ = 0;
};

/// Numbers that begin anew would name requests that servers remember.
TEST_F(Takeover, RequestsOfACustomerThatIsMadeAnewAreOthers) {
  start("again", 2, {"SUMCAST_PS_REPLICAS=1"});
  expect_right();
  EXPECT_THAT(job_->output(kScheduler), Not(HasSubstr("broke the protocol")));
  EXPECT_EQ(job_->wait(kScheduler), 0) << job_->output(kScheduler);
}

TEST_F(Takeover, RequestsThatCameBeforeTheNewsOfADeathFollowTheLog) {
  start("order", 2, {"SUMCAST_PS_REPLICAS=1", "PS_HEARTBEAT_INTERVAL=8s"});
  expect_right();
}

TEST_F(Takeover, AServerWhoseBackupHasLeftGoesOnAlone) {
  start("leave", 2, {"SUMCAST_PS_REPLICAS=1"});
  expect_right();
  EXPECT_THAT(job_->output(worker_), HasSubstr("server 1 (id 10) has left the job"));
  EXPECT_THAT(job_->output(worker_), HasSubstr("server 0 (id 8) has died"));
  EXPECT_THAT(job_->output(worker_), Not(HasSubstr("another server stands in")));
}

TEST_F(Takeover, WhatCameBeforeAHandlerIsHandledFirst) {
  start("waiting", 1);
  expect_right();
}

}  // namespace
}  // namespace pstest
