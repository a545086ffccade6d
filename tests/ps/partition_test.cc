// How a job's keys are cut: by hash, but by ranges where a program of the job asks for them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "job.h"

namespace pstest {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr int kServers = 3, kWorkers = 2;
constexpr size_t kFirstWorker = 1 + kServers;

/// The keys 0 to 999 and the last one.
const std::vector<size_t> kByRanges = {1000, 0, 1};

/// How many keys each server has had, in order of rank. The job has ended.
std::vector<size_t> keys_of(Job& job) {
  job.expect_success();
  std::vector<size_t> keys(kServers, 0);
  for (size_t i = 1; i < kFirstWorker; ++i) {
    const std::string output = job.output(i);
    const size_t at = std::min(output.find("rank "), output.size());
    size_t rank = 0, count = 0;
    EXPECT_EQ(std::sscanf(output.c_str() + at, "rank %zu has %zu keys", &rank, &count), 2)
        << output;
    if (rank < keys.size()) keys[rank] = count;
  }
  return keys;
}

struct Programs {
  std::string scheduler = "partition", servers = "partition", workers = "partition";
};

/// A job of which each role runs a program.
class Roles : public Job {
 public:
  explicit Roles(const Programs& programs, Environment more = {})
      : Job(kServers, kWorkers, std::move(more)) {
    add("scheduler", {program(programs.scheduler)});
    for (int i = 0; i < kServers; ++i) add("server", {program(programs.servers)});
    for (int i = 0; i < kWorkers; ++i) add("worker", {program(programs.workers)});
  }
};

void expect_hashed(const std::vector<size_t>& keys) {
  for (const size_t count : keys) {
    EXPECT_GT(count, 250u);
    EXPECT_LT(count, 450u);
  }
}

TEST(Partition, SmallIdsSpreadOverAllServersIfNobodyAsksForRanges) {
  Roles job(Programs{});
  expect_hashed(keys_of(job));
}

TEST(Partition, AProgramThatAsksHasRanges) {
  for (const char* const name : {"partition_ranges", "partition_slicer", "partition_library"}) {
    SCOPED_TRACE(name);
    Roles job(Programs{name, name, name});
    EXPECT_EQ(keys_of(job), kByRanges);
  }
}

TEST(Partition, OneProgramThatAsksIsEnoughForTheJobWhateverItsRole) {
  for (const Programs& programs : {Programs{"partition_ranges", "partition", "partition"},
                                   Programs{"partition", "partition_library", "partition"},
                                   Programs{"partition", "partition", "partition_slicer"}}) {
    Roles job(programs);
    EXPECT_EQ(keys_of(job), kByRanges);
  }
}

TEST(Partition, OneWorkerOfSeveralThatAsksIsEnough) {
  Job job(kServers, kWorkers);
  job.add("scheduler", {program("partition")});
  for (int i = 0; i < kServers; ++i) job.add("server", {program("partition")});
  job.add("worker", {program("partition")});
  job.add("worker", {program("partition_ranges")});
  EXPECT_EQ(keys_of(job), kByRanges);
}

TEST(Partition, TheVariableDecidesForAJobThatDoesNotAsk) {
  Roles ranges(Programs{}, {"SUMCAST_PS_PARTITION=ranges"});
  EXPECT_EQ(keys_of(ranges), kByRanges);
  Roles hash(Programs{}, {"SUMCAST_PS_PARTITION=hash"});
  expect_hashed(keys_of(hash));
  // Set for one process, it counts for all.
  Job one(kServers, kWorkers);
  one.add("scheduler", {program("partition")});
  for (int i = 0; i < kServers; ++i) one.add("server", {program("partition")});
  one.add("worker", {program("partition")});
  one.add("worker", {program("partition")}, {"SUMCAST_PS_PARTITION=ranges"});
  EXPECT_EQ(keys_of(one), kByRanges);
}

TEST(Partition, WhoSetHashForAProgramThatAsksIsToldThatItHasRanges) {
  Roles job(Programs{"partition", "partition", "partition_ranges"}, {"SUMCAST_PS_PARTITION=hash"});
  EXPECT_EQ(keys_of(job), kByRanges);
  EXPECT_THAT(job.output(0), HasSubstr("SUMCAST_PS_PARTITION=hash at "));
  EXPECT_THAT(job.output(0), HasSubstr("so keys go by ranges"));
  Roles obeyed(Programs{}, {"SUMCAST_PS_PARTITION=hash"});
  obeyed.expect_success();
  EXPECT_THAT(obeyed.output(0), Not(HasSubstr("SUMCAST_PS_PARTITION")));
}

TEST(Partition, ProcessesThatContradictOneAnotherAreNotLetIn) {
  Job job(1, 1, {"SUMCAST_PS_START_TIMEOUT=20s"});
  job.add("scheduler", {program("partition")}, {"SUMCAST_PS_PARTITION=hash"});
  job.add("worker", {program("partition")}, {"SUMCAST_PS_PARTITION=ranges"});
  EXPECT_NE(job.wait(1), 0);
  EXPECT_THAT(job.output(1), HasSubstr("SUMCAST_PS_PARTITION is ranges there, but hash at the "
                                       "scheduler; set it to the same"));
}

TEST(Partition, ALibraryThatAsksAfterTheStartIsTold) {
  Job job(kServers, kWorkers);
  const std::vector<std::string> command = {program("partition"), "plugin", PS_TEST_RANGES_LIBRARY};
  job.add_all(command, kWorkers);
  expect_hashed(keys_of(job));
  for (size_t i = kFirstWorker; i < job.size(); ++i) {
    EXPECT_THAT(job.output(i), HasSubstr("told: "));
    EXPECT_THAT(job.output(i), HasSubstr("set SUMCAST_PS_PARTITION=ranges for the job"));
  }
}

/// What ps-lite's own tests do is exact either way.
TEST(Partition, PsLitesOwnTestsPassEitherWay) {
  for (const char* const partition : {"ranges", "hash"}) {
    const Environment how = {std::string("SUMCAST_PS_PARTITION=") + partition};
    for (const char* const name : {"connection", "simple_app", "kv_app", "older"}) {
      SCOPED_TRACE(std::string(name) + " by " + partition);
      Job job(2, 2, how);
      job.add_all({program(name)}, 2);
      job.expect_success();
    }
    Job customers(2, 4, how);
    customers.add_all({program("kv_app"), "2"}, 2);
    customers.expect_success();
  }
}

}  // namespace
}  // namespace pstest
