// Deaths and absences are told to those concerned, at once and with names.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <filesystem>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "auth/key_file.h"
#include "job.h"

namespace pstest {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;

/// The processes of a job: the scheduler is 0, then servers, then workers.
constexpr size_t kScheduler = 0, kServer0 = 1;

void expect_told(Job& job, size_t index, const std::string& text) {
  EXPECT_EQ(job.wait(index), 7) << job.output(index);
  EXPECT_THAT(job.output(index), HasSubstr("told after"));
  EXPECT_THAT(job.output(index), HasSubstr(text));
}

/// A job of two servers and two workers that wait for answers.
class Fate : public testing::Test {
 protected:
  void start(const std::string& name, Environment more = {}) {
    more.push_back("SUMCAST_PS_PARTITION=ranges");  // Each server has one of two keys.
    job_.emplace(2, 2, std::move(more));
    job_->add_all({program("fate"), name}, 2);
    for (size_t i = 0; i < job_->size(); ++i) ASSERT_TRUE(job_->saw(i, "ready")) << job_->output(i);
  }

  std::optional<Job> job_;
};

TEST_F(Fate, AServersDeathEndsWait) {
  start("wait");
  job_->process(kServer0).send_signal(SIGKILL);
  for (const size_t worker : {3u, 4u}) expect_told(*job_, worker, "has died");
  // Those who wait in Finalize are told, too: the barrier cannot be reached any more.
  expect_told(*job_, 2, "did not come to the barrier");
  expect_told(*job_, kScheduler, "has died");
}

/// Lines of an output that begin with `what`.
std::vector<std::string> lines_of(const std::string& output, const std::string& what) {
  std::vector<std::string> lines;
  std::istringstream text(output);
  for (std::string line; std::getline(text, line);) {
    if (line.rfind(what, 0) == 0) lines.push_back(line);
  }
  return lines;
}

/// Nothing but the connection can tell of the death: silence would not count for a long time.
TEST_F(Fate, RequestsAfterADeathFailAtOnceAndThoseToOtherServersDoNot) {
  start("later", {"PS_HEARTBEAT_TIMEOUT=200s"});
  job_->process(kServer0).send_signal(SIGKILL);
  for (const size_t worker : {3u, 4u}) {
    ASSERT_TRUE(job_->saw(worker, "went on")) << job_->output(worker);
    const std::string output = job_->output(worker);
    EXPECT_THAT(lines_of(output, "first: told after"), SizeIs(1)) << output;
    EXPECT_THAT(lines_of(output, "push all: told after"), SizeIs(3));
    const std::string dead = lines_of(output, "push 0: done").empty() ? "0" : "1";
    for (const std::string what : {"push ", "pull ", "both "}) {
      EXPECT_THAT(
          lines_of(output, what + dead),
          AllOf(SizeIs(3), Each(AllOf(HasSubstr("told after"), HasSubstr("has failed"),
                                      HasSubstr("server " + dead), HasSubstr("has died")))));
      EXPECT_THAT(lines_of(output, what + (dead == "0" ? "1: done" : "0: done")), SizeIs(3));
    }
    EXPECT_THAT(output, Not(HasSubstr("SUMCAST_PS_WAIT_TIMEOUT"))) << "it was no deadline";
  }
}

TEST_F(Fate, ASilentServerIsFoundByItsSilence) {
  start("wait");
  job_->process(kServer0).send_signal(SIGSTOP);
  for (const size_t worker : {3u, 4u}) expect_told(*job_, worker, "nothing was heard of it");
  job_->process(kServer0).send_signal(SIGKILL);
}

TEST_F(Fate, TheSchedulersDeathEndsBarriers) {
  start("barrier");
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  job_->process(kScheduler).send_signal(SIGKILL);
  expect_told(*job_, kServer0, "the scheduler has died");
}

TEST_F(Fate, AWorkersDeathEndsTheBarrierThatNeedsIt) {
  start("barrier");
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  // One of the two sleeps; whichever dies, a barrier of all lacks it.
  job_->process(3).send_signal(SIGKILL);
  expect_told(*job_, kServer0, "worker");
  expect_told(*job_, 2, "has died");
}

TEST_F(Fate, ABarrierThatTakesTooLongNamesTheMissing) {
  start("barrier", {"SUMCAST_PS_BARRIER_TIMEOUT=1s"});
  size_t told = 0;
  for (int i = 0; i < 1000 && told == 0; ++i) {
    for (const size_t worker : {3u, 4u}) {
      if (job_->output(worker).find("told after") != std::string::npos) told = worker;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  ASSERT_NE(told, 0u);
  EXPECT_THAT(job_->output(told), HasSubstr("worker 0 (id 9) did not come to the barrier of group "
                                            "4 within 1 s (SUMCAST_PS_BARRIER_TIMEOUT)"));
}

TEST_F(Fate, AnAnswerThatDoesNotComeEndsWait) {
  start("wait", {"SUMCAST_PS_WAIT_TIMEOUT=1s"});
  for (const size_t worker : {3u, 4u}) expect_told(*job_, worker, "request");
  // Who ends first takes the scheduler along, and so the servers of who waits a moment longer.
  EXPECT_THAT(job_->output(3) + job_->output(4), HasSubstr("0 of 2 responses"));
}

TEST_F(Fate, LeavingWithoutABarrierIsNoDeath) {
  Job job(1, 1);
  job.add_all({program("fate"), "async"}, 1);
  EXPECT_EQ(job.wait(2), 0) << job.output(2);
  expect_told(job, 1, "worker 0 (id 9) has left the job");
}

TEST_F(Fate, AJobThatIsNotCompleteNamesWhoHasCome) {
  Job job(2, 1, {"SUMCAST_PS_START_TIMEOUT=2s"});
  job.add("scheduler", {program("fate"), "start"});
  job.add("server", {program("fate"), "start"}, {"SUMCAST_PS_START_TIMEOUT=20s"});
  expect_told(job, 0, "1 of 2 servers and 0 of 1 workers have come: server 127.0.0.1:");
  EXPECT_EQ(job.wait(1), 7);
}

TEST_F(Fate, AServerThatDiesWhileOthersConnectToItIsTold) {
  for (const char* const replicas : {"0", "1"}) {
    Job job(2, 1, {"PS_VERBOSE=1", std::string("SUMCAST_PS_REPLICAS=") + replicas});
    const std::vector<std::string> command = {program("fate"), "start"};
    job.add("scheduler", command);
    job.add("server", command);
    job.add("worker", command);
    ASSERT_TRUE(job.saw(kScheduler, "1 of 2 servers and 1 of 1 workers have come"));
    job.process(2).send_signal(SIGSTOP);  // It connects to the servers when one is dead.
    job.add("server", command);
    ASSERT_TRUE(job.saw(kScheduler, "assign rank=9"));
    job.process(kServer0).send_signal(SIGKILL);
    ASSERT_TRUE(job.saw(kScheduler, "has died"));
    job.process(2).send_signal(SIGCONT);
    if (replicas == std::string("0")) {
      expect_told(job, 2, "has died");
    } else {  // The other one stands in.
      EXPECT_EQ(job.wait(2), 0) << job.output(2);
      EXPECT_EQ(job.wait(3), 0) << job.output(3);
    }
  }
}

TEST_F(Fate, NobodyIsTheScheduler) {
  Job job(1, 1, {"SUMCAST_PS_START_TIMEOUT=1s"});
  job.add("worker", {program("fate"), "start"});
  expect_told(job, 0, "cannot reach the scheduler (DMLC_PS_ROOT_URI, DMLC_PS_ROOT_PORT) within 1");
}

TEST_F(Fate, OneTooManyIsNotLetIn) {
  Job job(1, 1, {"SUMCAST_PS_START_TIMEOUT=10s"});
  job.add("scheduler", {program("fate"), "start"});
  job.add("server", {program("fate"), "start"});
  job.add("server", {program("fate"), "start"});
  size_t refused = 0;
  for (int i = 0; i < 1000 && refused == 0; ++i) {
    for (const size_t server : {1u, 2u}) {
      if (job.output(server).find("told after") != std::string::npos) refused = server;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  ASSERT_NE(refused, 0u);
  EXPECT_THAT(job.output(refused), HasSubstr("check DMLC_NUM_SERVER"));
}

TEST_F(Fate, AnotherKeyOrNoneIsNotLetIn) {
  const std::string one = own_file("key"), two = one + "b";
  for (const auto& path : {one, two}) {
    std::filesystem::remove(path);
    ASSERT_TRUE(sumcast::auth::write_key_file(path));
  }
  Job job(1, 1, {"SUMCAST_PS_START_TIMEOUT=3s"});
  job.add("scheduler", {program("fate"), "start"}, {"SUMCAST_KEY_FILE=" + one});
  job.add("server", {program("fate"), "start"}, {"SUMCAST_KEY_FILE=" + two});
  job.add("worker", {program("fate"), "start"});
  expect_told(job, 1, "the scheduler has gone before all nodes had come");
  expect_told(job, 2, "set SUMCAST_KEY_FILE for all or none");
  EXPECT_TRUE(job.saw(0, "has another key (SUMCAST_KEY_FILE)"));
  for (const auto& path : {one, two}) std::filesystem::remove(path);
}

TEST_F(Fate, WrongSettingsAreNamed) {
  Job job(1, 1);
  job.add("boss", {program("fate"), "start"});
  job.add("worker", {program("fate"), "start"}, {"DMLC_PS_ROOT_PORT=http"});
  job.add("worker", {program("fate"), "start"}, {"DMLC_NUM_SERVER="});
  job.add("worker", {program("fate"), "start"}, {"SUMCAST_PS_PARTITION=random"});
  expect_told(job, 0, "DMLC_ROLE=boss: must be worker, server or scheduler");
  expect_told(job, 1, "DMLC_PS_ROOT_PORT=http: must be a whole number from 1 to 65535");
  expect_told(job, 2, "DMLC_NUM_SERVER is not set");
  expect_told(job, 3, "SUMCAST_PS_PARTITION=random: must be ranges or hash");
}

}  // namespace
}  // namespace pstest
