// ps-lite's own five tests, written anew, and cases that it failed or had no test for.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

#include "auth/key_file.h"
#include "job.h"

namespace pstest {
namespace {

/// A key for a job, in a file that goes with it.
class KeyFile {
 public:
  explicit KeyFile(const std::string& name) : path_(own_file("key_" + name)) {
    std::filesystem::remove(path_);
    EXPECT_TRUE(sumcast::auth::write_key_file(path_));
  }
  ~KeyFile() { std::filesystem::remove(path_); }
  std::string variable() const { return "SUMCAST_KEY_FILE=" + path_; }

 private:
  const std::string path_;
};

TEST(Programs, NodesMeetAndPart) {
  Job job(2, 2);
  job.add_all({program("connection")}, 2);
  job.expect_success();
}

TEST(Programs, AHundredBroadcastsAreAnsweredByAll) {
  Job job(2, 2);
  job.add_all({program("simple_app")}, 2);
  job.expect_success();
}

TEST(Programs, PushesPullsAndBothAreExact) {
  Job job(2, 2);
  job.add_all({program("kv_app")}, 2);
  job.expect_success();
}

TEST(Programs, TwoCustomersOfOneProcess) {
  Job job(2, 2);
  job.add_all({program("kv_app"), "2"}, 1);
  job.expect_success();
}

TEST(Programs, TwoCustomersOfEachOfTwoProcesses) {
  Job job(2, 4);
  job.add_all({program("kv_app"), "2"}, 2);
  job.expect_success();
}

TEST(Programs, TwoCustomersUnderLoss) {
  for (const char* const seed : {"1", "2"}) {
    Job job(2, 2,
            {"PS_RESEND=1", "PS_RESEND_TIMEOUT=200", "PS_DROP_MSG=10",
             std::string("SUMCAST_PS_DROP_SEED=") + seed});
    job.add_all({program("kv_app"), "2"}, 1);
    job.expect_success();
  }
}

TEST(Programs, ResendWithoutLossChangesNothing) {
  Job job(2, 4, {"PS_RESEND=1"});
  job.add_all({program("kv_app"), "2"}, 2);
  job.expect_success();
}

TEST(Programs, UrgentMessagesFirstAndFewFramesQueued) {
  for (const Environment& how :
       {Environment{"DMLC_PS_VAN_TYPE=p3"}, Environment{"DMLC_PS_VAN_TYPE=p3", "SUMCAST_PS_LEND=0"},
        Environment{"DMLC_PS_WATER_MARK=1"}}) {
    Job job(2, 2, how);
    job.add_all({program("kv_app"), "2"}, 1);
    job.expect_success();
    Job big(3, 1, how);
    big.add_all({program("cases"), "big"}, 1);
    big.expect_success();
  }
}

TEST(Programs, ALocalJobDoesWithoutTheSchedulersName) {
  Job job(2, 2, {"DMLC_LOCAL=1", "DMLC_PS_ROOT_URI=no.such.host.invalid"});
  job.add_all({program("kv_app")}, 2);
  job.expect_success();
}

TEST(Programs, TheSchedulerListensOnAllAddressesUnderKubernetes) {
  Job job(1, 1, {"DMLC_USE_KUBERNETES=1"});
  job.add_all({program("connection")}, 1);
  job.expect_success();
}

TEST(Programs, VerbosityShowsWhoComesAndEachMessage) {
  Job job(1, 1, {"PS_VERBOSE=2", "DMLC_ENABLE_RDMA=1"});
  job.add_all({program("kv_app")}, 1);
  job.expect_success();
  EXPECT_THAT(job.output(0), testing::HasSubstr("assign rank=8"));
  EXPECT_THAT(job.output(1), testing::HasSubstr("receives 9 => 8: request"));
  EXPECT_THAT(job.output(2), testing::HasSubstr("is connected to others"));
  EXPECT_THAT(job.output(2), testing::HasSubstr("without meaning here: DMLC_ENABLE_RDMA"));
  Job quiet(1, 1);
  quiet.add_all({program("kv_app")}, 1);
  quiet.expect_success();
  EXPECT_THAT(quiet.output(1), testing::Not(testing::HasSubstr("receives")));
}

TEST(Programs, ThreeServersHaveTheFirstAndTheLastKey) {
  for (const char* const partition : {"ranges", "hash"}) {
    Job job(3, 2, {std::string("SUMCAST_PS_PARTITION=") + partition});
    job.add_all({program("cases"), "extremes"}, 2);
    job.expect_success();
  }
}

TEST(Programs, AProgramOf2016) {
  Job job(2, 2);
  job.add_all({program("older")}, 2);
  job.expect_success();
}

TEST(Programs, ResponsesComeLaterFromAnotherThread) {
  Job job(1, 3);
  job.add_all({program("cases"), "deferred"}, 3);
  job.expect_success();
}

TEST(Programs, BadInputIsAnErrorAndChangesNothing) {
  Job job(2, 1);
  job.add_all({program("cases"), "bad_input"}, 1);
  job.expect_success();
}

TEST(Programs, KeysWithoutValuesAndRequestsWithoutKeys) {
  for (const char* const partition : {"ranges", "hash"}) {
    for (const char* const replicas : {"0", "1"}) {
      Job job(3, 1,
              {std::string("SUMCAST_PS_PARTITION=") + partition,
               std::string("SUMCAST_PS_REPLICAS=") + replicas});
      job.add_all({program("cases"), "nothing"}, 1);
      job.expect_success();
    }
  }
}

TEST(Programs, WhoEndsWhileRequestsAreUnderWayEndsAllTheSame) {
  for (const Environment& how :
       {Environment{}, Environment{"SUMCAST_PS_LEND=0"}, Environment{"SUMCAST_PS_REPLICAS=1"},
        Environment{"PS_RESEND=1"}}) {
    Job job(2, 2, how);
    job.add_all({program("cases"), "leave"}, 2);
    job.expect_success();
  }
}

TEST(Programs, BigMessagesLentAndSent) {
  for (const char* const lend : {"1", "0"}) {
    for (const char* const partition : {"ranges", "hash"}) {
      Job job(2, 1,
              {std::string("SUMCAST_PS_PARTITION=") + partition,
               std::string("SUMCAST_PS_LEND=") + lend});
      job.add_all({program("cases"), "big"}, 1);
      job.expect_success();
    }
  }
}

/// So much memory could be had now.
bool has_memory(uint64_t bytes) {
  std::ifstream facts("/proc/meminfo");
  for (std::string line; std::getline(facts, line);) {
    if (line.rfind("MemAvailable:", 0) == 0) return std::stoull(line.substr(13)) * 1024 > bytes;
  }
  return false;
}

TEST(Programs, MessagesOfMoreThanTwoGigabytes) {
  if (!has_memory(uint64_t{10} << 30)) GTEST_SKIP() << "10 GB of memory are not free";
  const KeyFile key("huge");
  for (const std::string& how :
       {std::string("SUMCAST_PS_LEND=1"), std::string("SUMCAST_PS_LEND=0"), key.variable()}) {
    // All the reading, writing and sealing takes longer than silence may. (What nobody can cut into
    // pieces, the kernel's freeing of two gigabytes, has been seen to take 1.2 s on a busy
    // machine.)
    const std::string silence = kIsSanitized ? "6s" : "2s";
    Job job(1, 1, {how, "PS_HEARTBEAT_INTERVAL=100ms", "PS_HEARTBEAT_TIMEOUT=" + silence});
    job.add_all({program("cases"), "huge"}, 1);
    job.expect_success();
  }
}

TEST(Programs, BigMessagesUnderLoss) {
  Job job(2, 1, {"PS_RESEND=1", "PS_RESEND_TIMEOUT=200", "PS_DROP_MSG=10"});
  job.add_all({program("cases"), "big"}, 1);
  job.expect_success();
}

TEST(Programs, StartAfterFinalize) {
  Job job(2, 2);
  job.add_all({program("cases"), "again"}, 2);
  job.expect_success();
}

TEST(Programs, CallbacksSendAndWaitForOtherCustomers) {
  Job job(2, 1);
  job.add_all({program("cases"), "callbacks"}, 1);
  job.expect_success();
}

TEST(Programs, SealedWithAKey) {
  const KeyFile key("job");
  for (const Environment& how :
       {Environment{}, Environment{"DMLC_PS_VAN_TYPE=p3"}, Environment{"SUMCAST_PS_REPLICAS=1"},
        Environment{"PS_RESEND=1", "PS_RESEND_TIMEOUT=200", "PS_DROP_MSG=10"}}) {
    for (const std::vector<std::string>& command :
         {std::vector<std::string>{program("kv_app")},
          std::vector<std::string>{program("cases"), "big"}}) {
      Environment sealed = how;
      sealed.push_back(key.variable());
      Job job(2, 1, sealed);
      job.add_all(command, 1);
      job.expect_success();
    }
  }
}

TEST(Programs, MoreThanTwoHundredNodes) {
  if (kIsSanitized) GTEST_SKIP() << "each of them does what few do elsewhere";
  constexpr int kWorkers = 205;
  Job job(3, kWorkers, {"PS_HEARTBEAT_TIMEOUT=20"});
  job.add_all({program("cases"), "many"}, kWorkers);
  job.expect_success();
}

}  // namespace
}  // namespace pstest
