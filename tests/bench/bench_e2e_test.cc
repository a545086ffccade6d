// The bench from end to end, small: a cluster of its own, losses injected, every element checked.
// How fast anything is, is not looked at.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "run_json.h"

namespace sumcast {
namespace {

using nlohmann::json;
using namespace std::chrono_literals;

Outcome bench(const std::string& words) { return run_json("bench " + words); }

/// Rows by algorithm and size: each is there once, and none is wrong.
void expect_rows(const Outcome& outcome, const std::set<std::string>& algorithms,
                 const std::set<uint64_t>& sizes) {
  EXPECT_TRUE(outcome.status.ok()) << outcome.status.describe();
  std::set<std::pair<std::string, uint64_t>> wanted, found;
  for (const std::string& algorithm : algorithms) {
    for (const uint64_t bytes : sizes) wanted.emplace(algorithm, bytes);
  }
  for (const json& row : outcome.rows) {
    EXPECT_TRUE(found.emplace(row.at("algo"), row.at("bytes").get<uint64_t>()).second);
    EXPECT_EQ(row.at("wrong"), 0) << row.dump();
    EXPECT_EQ(row.at("workers"), 3) << row.dump();
    EXPECT_GT(row.at("time_us"), 0) << row.dump();
  }
  EXPECT_EQ(found, wanted);
}

TEST(Bench, SumsAreRightThoughDatagramsGetLostComeTwiceAndOvertakeEachOther) {
  const Outcome outcome = bench(
      "--workers 3 -b 4 -e 256K -f 256 -n 3 -w 1 --algo in-network,direct,ring,halving-doubling "
      "--loss 0.02 --dup 0.01 --reorder 0.01 --seed 5");
  expect_rows(outcome, {"in-network", "direct", "ring", "halving-doubling"}, {4, 1024, 262'144});
  // Losses were real: of some thousand datagrams one in fifty went.
  std::map<std::string, uint64_t> repeats;
  for (const json& row : outcome.rows) repeats[row.at("algo")] += row.value("retransmits", 0u);
  EXPECT_GT(repeats["in-network"], 0u);
  EXPECT_GT(repeats["direct"], 0u);
}

TEST(Bench, APeerRunsBesideUs) {
#ifdef BENCH_PEER
  const std::string peer = BENCH_PEER;
  const Outcome outcome =
      bench("--workers 3 -b 4 -e 64K -f 16384 -n 3 -w 1 --algo in-network --peer " + peer);
  expect_rows(outcome, {"in-network", peer}, {4, 65'536});
#else
  GTEST_SKIP() << "no peer was built";
#endif
}

TEST(Bench, WireFormatsAndOtherCollectivesAreCheckedToo) {
  for (const char* words : {"--workers 2 -b 64K -n 2 -w 0 --wire bf16 --loss 0.02",
                            "--workers 2 -b 64K -n 2 -w 0 --collective reduce_scatter",
                            "--workers 4 --ranks-per-host 2 -b 64K -n 2 -w 0 --algo direct"}) {
    const Outcome outcome = bench(words);
    EXPECT_TRUE(outcome.status.ok()) << words << ": " << outcome.status.describe();
    ASSERT_EQ(outcome.rows.size(), 1u) << words;
    EXPECT_EQ(outcome.rows[0].at("wrong"), 0) << outcome.rows[0].dump();
  }
}

/// On links that are slow enough for it to pay, as soon as that is known: in the first operation.
TEST(Bench, TensorsOfZerosForTheMostPartTakeFewerBytes) {
  std::map<double, uint64_t> sent;
  for (const double density : {1.0, 0.02}) {
    const Outcome outcome =
        bench("--workers 2 --rate 200mbit -b 4M -n 2 -w 1 --loss 0.01 --density " +
              std::to_string(density));
    ASSERT_TRUE(outcome.status.ok()) << outcome.status.describe();
    ASSERT_EQ(outcome.rows.size(), 1u);
    EXPECT_EQ(outcome.rows[0].at("wrong"), 0);
    EXPECT_EQ(outcome.rows[0].at("density"), density);
    if (outcome.rows[0].at("tx_bytes_per_worker").is_null())
      GTEST_SKIP() << "links have no counter";
    sent[density] = outcome.rows[0].at("tx_bytes_per_worker");
  }
  EXPECT_LT(sent[0.02], sent[1.0] / 4);
}

TEST(Bench, AFlagThatDoesNotExistIsRefused) {
  const Outcome outcome = bench("--workers 2 --no-such-flag");
  EXPECT_NE(outcome.status.code, 0);
  EXPECT_TRUE(outcome.rows.empty());
}

}  // namespace
}  // namespace sumcast
