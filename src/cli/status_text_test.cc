#include "cli/status_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace sumcast::cli {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

json activity(uint64_t posted, uint64_t completed) {
  return {{"group", 0},
          {"posted", posted},
          {"completed", completed},
          {"operation", "all_reduce f32[9] sum"},
          {"age_ms", 3200},
          {"tag", ""}};
}

json rank_json(int rank, const std::string& state, const json& groups) {
  return {{"rank", rank},
          {"state", state},
          {"name", "node" + std::to_string(rank) + ":81"},
          {"address", "10.0.0." + std::to_string(rank + 1)},
          {"tag", ""},
          {"silent_ms", 120},
          {"alone", ""},
          {"failovers", 0},
          {"returns", 0},
          {"waited_for_ms", 4700 + rank},
          {"groups", groups}};
}

/// Three ranks; rank 2 has not called the operation that the others wait in.
json waiting_job() {
  return {{"name", "train"},
          {"state", "running"},
          {"world", 3},
          {"slots", 1024},
          {"slots_in_use", 512},
          {"groups_pending", json::array()},
          {"ranks", json::array({rank_json(0, "live", json::array({activity(12, 11)})),
                                 rank_json(1, "live", json::array({activity(12, 11)})),
                                 rank_json(2, "live", json::array({activity(11, 11)}))})},
          {"groups", json::array({{{"group", 0},
                                   {"key", "world"},
                                   {"ranks", json::array({0, 1, 2})},
                                   {"slot_base", 0},
                                   {"slot_count", 512},
                                   {"hosts", json::array({0, 0, 1})},
                                   {"payload_bytes", 1472},
                                   {"aborted", nullptr},
                                   {"state", "waiting"},
                                   {"sequence", 12},
                                   {"operation", "all_reduce f32[9] sum"},
                                   {"age_ms", 3200},
                                   {"blocked_on", json::array({2})}}})}};
}

json status_of(const json& jobs) {
  json counters;
  for (const char* key : {"received", "accepted", "duplicate", "results", "repairs", "mismatch",
                          "foreign", "malformed", "unknown_job", "unauthentic", "tx_bytes"}) {
    counters[key] = 1234;
  }
  counters["operations"] = 10;
  return {{"program", "sumcastd"},
          {"version", "0.1.0"},
          {"listen", "0.0.0.0:4700"},
          {"pid", 17},
          {"uptime_ms", 90'000},
          {"sealed", true},
          {"jobs", jobs},
          {"counters",
           {{"jobs_started", 1},
            {"groups_opened", 2},
            {"aborts", 0},
            {"deaths", 0},
            {"joins_refused", 0},
            {"denied_wrong_key", 3},
            {"groups_refused", 0}}},
          {"threads", json::array({{{"thread", 0},
                                    {"endpoint", "0.0.0.0:4700"},
                                    {"counters", counters},
                                    {"operations_ns", 25'000'000},
                                    {"socket_drops", 5},
                                    {"cycle_ns_max", 1'500'000}}})}};
}

std::string text_of(const json& status) {
  const auto text = status_text(status);
  EXPECT_TRUE(text.has_value());
  return text.value_or("");
}

TEST(StatusText, SumsUpDaemonJobAndThreads) {
  const std::string text = text_of(status_of(json::array({waiting_job()})));
  EXPECT_THAT(text, HasSubstr("sumcastd 0.1.0 at 0.0.0.0:4700, pid 17, up 90 s: 1 job, 3 workers"));
  EXPECT_THAT(text, HasSubstr("Job \"train\" running: ranks 0-2 live; slots 512 of 1024 in use"));
  EXPECT_THAT(text, HasSubstr("WAITING"));
  EXPECT_THAT(text, HasSubstr("6,170"));  // Rejected: five reasons.
  EXPECT_THAT(text, HasSubstr("1.5 ms"));
  EXPECT_THAT(text, HasSubstr("2.5 ms"));  // An operation, on average.
  EXPECT_THAT(text, HasSubstr("4.7 s"));   // Waited for a rank.
  EXPECT_THAT(text, HasSubstr("3 wrong keys"));
}

TEST(StatusText, NamesTheRankThatOthersWaitFor) {
  EXPECT_THAT(text_of(status_of(json::array({waiting_job()}))),
              HasSubstr("! group 0 has waited 3.2 s for rank 2 (node2:81 at 10.0.0.3): the others "
                        "are at operation 12, it is at 11\n"));
  json job = waiting_job();
  job["ranks"][0]["groups"][0]["left_ms"] = 90'000;
  job["ranks"][1]["groups"][0]["left_ms"] = 60'000;
  job["ranks"][2]["groups"][0]["left_ms"] = 5'000;  // Nothing of its own is under way.
  EXPECT_THAT(text_of(status_of(json::array({job}))), HasSubstr("it is at 11; it fails in 60 s\n"));
}

TEST(StatusText, ShowsWhatARankSaysThatItIsDoing) {
  json job = waiting_job();
  job["ranks"][2]["tag"] = "starting";
  EXPECT_THAT(text_of(status_of(json::array({job}))), HasSubstr("10.0.0.3) \"starting\": the"));
  job["ranks"][2]["groups"][0]["tag"] = "in the data loader";
  const std::string text = text_of(status_of(json::array({job})));
  EXPECT_THAT(text, HasSubstr("10.0.0.3) \"in the data loader\": the others"));
  EXPECT_THAT(text, HasSubstr("  in the data loader\n"));  // In the table of ranks.
  EXPECT_THAT(text, Not(HasSubstr("starting")));
}

TEST(StatusText, AHeartbeatsLatenessIsNoWait) {
  json job = waiting_job();
  job["groups"][0]["age_ms"] = 400;
  EXPECT_THAT(text_of(status_of(json::array({job}))), Not(HasSubstr("has waited")));
}

TEST(StatusText, DeadAbsentAndAbortedAreNamed) {
  json job = waiting_job();
  job["ranks"][1]["state"] = "dead";
  job["ranks"][2] = rank_json(2, "absent", json::array());
  job["ranks"][2]["name"] = "";
  job["groups"][0]["state"] = "aborted";
  job["groups"][0]["aborted"] = "rank 1 died";
  job["groups_pending"] = json::array({"tensor-parallel"});
  const std::string text = text_of(status_of(json::array({job})));
  EXPECT_THAT(text, HasSubstr("! rank 1 (node1:81 at 10.0.0.2) is dead"));
  EXPECT_THAT(text, HasSubstr("! rank 2 has not joined"));
  EXPECT_THAT(text, HasSubstr("! group 0 was aborted: rank 1 died"));
  EXPECT_THAT(text, HasSubstr("! group \"tensor-parallel\" waits for members"));
  EXPECT_THAT(text, HasSubstr("rank 2 absent, rank 1 dead, rank 0 live"));
}

TEST(StatusText, LargeWorldsAreSummedUpInsteadOfListed) {
  json job = waiting_job();
  for (int rank = 3; rank < 200; ++rank) {
    job["ranks"].push_back(rank_json(rank, "live", json::array({activity(12, 11)})));
  }
  const std::string text = text_of(status_of(json::array({job})));
  EXPECT_THAT(text, HasSubstr("ranks 0-199 live"));
  EXPECT_THAT(text, Not(HasSubstr("node150:81")));
  EXPECT_THAT(text, HasSubstr("for rank 2 (node2:81"));
}

TEST(StatusText, AnInsecureDaemonSaysSo) {
  json status = status_of(json::array());
  status["sealed"] = false;
  EXPECT_THAT(text_of(status), HasSubstr("! insecure"));
}

TEST(StatusText, NamesFromTheNetworkCannotDriveTheTerminal) {
  json job = waiting_job();
  job["name"] = "a\x1b[2Jb";
  job["ranks"][2]["name"] = "n\x1b[31mode";
  job["groups"][0]["aborted"] = "x\ny\x1b[0m";
  job["groups"][0]["state"] = "aborted";
  EXPECT_THAT(text_of(status_of(json::array({job}))), Not(HasSubstr("\x1b")));
}

TEST(StatusText, WhatIsNoStatusIsAnError) {
  for (const json& other : {json::array(), json(3), json{{"program", "other"}},
                            json{{"program", "sumcastd"}, {"jobs", 4}}}) {
    EXPECT_FALSE(status_text(other).has_value()) << other;
  }
}

TEST(StatusText, ShowsWhichRanksShareAHost) {
  json job = waiting_job();
  EXPECT_THAT(text_of(status_of(json::array({job}))), HasSubstr("2 x 1-2"));
  job["groups"][0]["hosts"] = json::array({0, 1, 2});
  job["ranks"][1]["alone"] = "memfd_create: Operation not permitted";
  const std::string text = text_of(status_of(json::array({job})));
  EXPECT_THAT(text, Not(HasSubstr(" x ")));
  EXPECT_THAT(text, HasSubstr("shares memory with no rank of its host: memfd_create: Operation"));
}

TEST(StatusText, ShowsThatTrainingChangedItsAggregator) {
  json job = waiting_job();
  EXPECT_THAT(text_of(status_of(json::array({job}))), Not(HasSubstr("came back")));
  job["ranks"][1]["failovers"] = 2;
  job["ranks"][1]["returns"] = 1;
  EXPECT_THAT(text_of(status_of(json::array({job}))),
              HasSubstr("its aggregators were lost 2 times; it came back 1 time"));
}

}  // namespace
}  // namespace sumcast::cli
