#include "daemon/pages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <sstream>

namespace sumcast::daemon {
namespace {

using nlohmann::json;
using testing::HasSubstr;

struct Activity {
  uint64_t posted, completed;
  uint64_t age_ms = 0;
  std::string state = "live";
};

/// A job whose ranks are all in group 0.
json job_of(const std::vector<Activity>& ranks, const std::string& name = "train") {
  json job = {{"name", name},
              {"state", "running"},
              {"world", ranks.size()},
              {"slots", 64},
              {"slots_in_use", 8},
              {"groups_pending", json::array()},
              {"incarnation", "00c0ffee"}};
  json numbers = json::array();
  for (size_t r = 0; r < ranks.size(); ++r) {
    numbers.push_back(r);
    job["ranks"].push_back(
        {{"rank", r},
         {"state", ranks[r].state},
         {"name", "host:1"},
         {"address", "10.0.0.1"},
         {"tag", ""},
         {"silent_ms", 20},
         {"failovers", 3},
         {"returns", 2},
         {"groups",
          json::array({{{"group", 0},
                        {"posted", ranks[r].posted},
                        {"completed", ranks[r].completed},
                        {"operation", "all_reduce #" + std::to_string(ranks[r].completed + 1)},
                        {"age_ms", ranks[r].age_ms},
                        {"tag", ""}}})}});
  }
  job["groups"] = json::array({{{"group", 0},
                                {"key", "world"},
                                {"ranks", numbers},
                                {"slot_base", 0},
                                {"slot_count", 8},
                                {"payload_bytes", 1472},
                                {"aborted", nullptr}}});
  return job;
}

GroupProgress progress(const std::vector<Activity>& ranks) {
  const json job = job_of(ranks);
  return progress_of(job, job["groups"][0]);
}

DaemonFacts facts_of(json jobs) {
  DaemonFacts facts;
  facts.pid = 17;
  facts.uptime = 90s;
  facts.listen = "0.0.0.0:4700";
  facts.shards = {"0.0.0.0:4700", "0.0.0.0:4701"};
  facts.threads.resize(2);
  facts.threads[1].shard.add(collective::ShardCount::kReceived);
  facts.threads[1].shard.add(collective::ShardCount::kUnauthentic);
  facts.threads[1].shard.add(collective::ShardWork::kBytesSent, 1500);
  facts.threads[1].shard.operations = 2500ms;
  facts.threads[0].waited_for[Incarnation(0xC0FFEE)] = {0ms, 300ms};
  facts.threads[1].waited_for[Incarnation(0xC0FFEE)] = {10ms, 200ms};
  facts.threads[1].socket_drops = 5;
  facts.threads[1].cycle_max = 1500us;
  json counters;
  for (const char* key :
       {"jobs_started", "jobs_ended", "joins_refused", "groups_opened", "groups_refused", "aborts",
        "deaths", "connections_accepted", "denied_wrong_key"}) {
    counters[key] = 3;
  }
  facts.coordinator = {{"endpoint", "0.0.0.0:4700"},
                       {"sealed", true},
                       {"jobs", std::move(jobs)},
                       {"counters", std::move(counters)}};
  return facts;
}

TEST(Progress, AGroupThatHasDoneNothingIsIdle) {
  const GroupProgress p = progress({{0, 0}, {0, 0}});
  EXPECT_EQ(p.state, "idle");
  EXPECT_EQ(p.sequence, 0u);
}

TEST(Progress, AGroupThatHasCompletedAllIsIdleAtItsLastOperation) {
  const GroupProgress p = progress({{7, 7, 900}, {7, 7, 800}});
  EXPECT_EQ(p.state, "idle");
  EXPECT_EQ(p.sequence, 7u);
  EXPECT_EQ(p.age_ms, 0u);
}

TEST(Progress, RanksThatHaveNotPostedAreWaitedFor) {
  const GroupProgress p = progress({{8, 7, 300}, {7, 7, 5000}, {9, 7, 400}, {6, 6, 9000}});
  EXPECT_EQ(p.state, "waiting");
  EXPECT_EQ(p.sequence, 8u);
  EXPECT_EQ(p.operation, "all_reduce #8");
  EXPECT_EQ(p.age_ms, 400u);  // Of the ranks that wait, not of those they wait for.
  EXPECT_EQ(p.blocked_on, (std::vector<uint32_t>{1, 3}));
}

TEST(Progress, WhenAllHavePostedItRuns) {
  const GroupProgress p = progress({{8, 7, 10}, {8, 7, 12}, {8, 6, 50}});
  EXPECT_EQ(p.state, "running");
  EXPECT_EQ(p.sequence, 8u);
  EXPECT_EQ(p.age_ms, 12u);
  EXPECT_TRUE(p.blocked_on.empty());
}

TEST(Progress, ADeadRankIsWaitedForWhateverItHadPosted) {
  const GroupProgress p = progress({{8, 7, 10}, {8, 7, 10, "dead"}});
  EXPECT_EQ(p.state, "waiting");
  EXPECT_EQ(p.blocked_on, std::vector<uint32_t>{1});
}

TEST(Progress, AnAbortIsTold) {
  json job = job_of({{8, 7}, {7, 7}});
  job["groups"][0]["aborted"] = "rank 1 died";
  EXPECT_EQ(progress_of(job, job["groups"][0]).state, "aborted");
}

TEST(StatusPage, HoldsDaemonThreadsAndProgress) {
  const json page = status_page(facts_of(json::array({job_of({{2, 1, 5}, {1, 1}})})));
  EXPECT_EQ(page["program"], "sumcastd");
  EXPECT_EQ(page["pid"], 17);
  EXPECT_EQ(page["uptime_ms"], 90'000);
  EXPECT_EQ(page["http"], nullptr);
  EXPECT_EQ(page["threads"][1]["counters"]["unauthentic"], 1);
  EXPECT_EQ(page["threads"][1]["socket_drops"], 5);
  EXPECT_EQ(page["threads"][1]["endpoint"], "0.0.0.0:4701");
  EXPECT_EQ(page["threads"][1]["counters"]["tx_bytes"], 1500);
  EXPECT_EQ(page["threads"][1]["operations_ns"], 2'500'000'000);
  EXPECT_EQ(page["jobs"][0]["ranks"][1]["waited_for_ms"], 300);
  EXPECT_EQ(page["jobs"][0]["groups"][0]["state"], "waiting");
  EXPECT_EQ(page["jobs"][0]["groups"][0]["blocked_on"], json::array({1}));
}

TEST(MetricsPage, HoldsThreadsJobsAndRejections) {
  const std::string text = metrics_page(facts_of(json::array({job_of({{2, 1, 2500}, {1, 1}})})));
  for (const char* line : {
           "\nsumcast_jobs{state=\"running\"} 1\n",
           "\nsumcast_job_workers{job=\"train\",state=\"live\"} 2\n",
           "\nsumcast_job_failovers{job=\"train\"} 3\n",
           "\nsumcast_job_returns{job=\"train\"} 2\n",
           "\nsumcast_slots_in_use{job=\"train\"} 8\n",
           "\nsumcast_slots_limit{job=\"train\"} 64\n",
           "\nsumcast_oldest_wait_seconds{job=\"train\"} 2.5\n",
           "\nsumcast_worker_last_seen_seconds{job=\"train\",rank=\"1\"} 0.02\n",
           "\nsumcast_aborts_total 3\n",
           "\nsumcast_rx_packets_total{thread=\"1\"} 1\n",
           "\nsumcast_rejected_packets_total{reason=\"auth\",thread=\"1\"} 1\n",
           "\nsumcast_rejected_packets_total{reason=\"auth\",thread=\"0\"} 0\n",
           "\nsumcast_socket_drops_total{thread=\"1\"} 5\n",
           "\nsumcast_tx_bytes_total{thread=\"1\"} 1500\n",
           "\nsumcast_operation_seconds_total{thread=\"1\"} 2.5\n",
           "\nsumcast_straggler_seconds_total{job=\"train\",rank=\"0\"} 0.01\n",
           "\nsumcast_straggler_seconds_total{job=\"train\",rank=\"1\"} 0.3\n",
           "\nsumcast_loop_cycle_seconds_max{thread=\"1\"} 0.0015\n",
       }) {
    EXPECT_THAT(text, HasSubstr(line));
  }
}

TEST(MetricsPage, NamesEachSampleOnceAndAllInItsFamily) {
  std::istringstream lines(
      metrics_page(facts_of(json::array({job_of({{1, 1}}), job_of({{1, 1}}, "b")}))));
  std::set<std::string> samples, families;
  std::string family;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("# HELP ")) {
      family = line.substr(7, line.find(' ', 7) - 7);
      EXPECT_TRUE(families.insert(family).second) << family;
    } else if (!line.starts_with("#")) {
      EXPECT_TRUE(samples.insert(line.substr(0, line.rfind(' '))).second) << line;
      EXPECT_EQ(line.substr(0, line.find_first_of("{ ")), family);
    }
  }
  EXPECT_GT(samples.size(), 40u);
}

TEST(MetricsPage, RankLabelsEndWhereWorldsGetLarge) {
  const std::string text =
      metrics_page(facts_of(json::array({job_of(std::vector<Activity>(65, {1, 1}))})));
  EXPECT_THAT(text, testing::Not(HasSubstr("rank=")));
}

TEST(MetricsPage, AJobsNameCannotForgeALine) {
  const std::string text =
      metrics_page(facts_of(json::array({job_of({{1, 1}}, "a\"} 1\nsumcast_jobs 9\n")})));
  EXPECT_THAT(text, testing::Not(HasSubstr("\nsumcast_jobs 9")));
}

}  // namespace
}  // namespace sumcast::daemon
