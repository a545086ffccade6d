// `sumcast train` as real processes that are killed: all of them and taken up again, or the
// aggregator alone. However it went, the last checkpoint is that of an undisturbed training, byte
// for byte.
#include <thread>

#include "base/prng.h"
#include "cli/train_end_to_end.h"

namespace sumcast::cli {
namespace {

TEST_F(TrainEndToEnd, ProcessesKilledAtAnyMomentAndStartedAgainEndWithTheSameBits) {
  const Model expected = undisturbed();
  EXPECT_GT(expected.rows.size(), 1000u);
  Prng random(3);
  uint32_t kills = 0;
  for (; kills < 5; ++kills) {
    const uint32_t before = checkpoints("killed");
    if (before > 24) break;  // Of 34; it must not end by itself.
    auto members = start("killed", free_port(), "");
    wait_for_checkpoint("killed", before + 1);
    std::this_thread::sleep_for(std::chrono::microseconds(random.below(50'000)));
    for (lab::Process& member : members) ::kill(member.pid(), SIGKILL);
    for (lab::Process& member : members) (void)member.wait(10s);
  }
  EXPECT_GT(kills, 0u);
  auto members = start("killed", free_port(), "");
  expect_success(members);
  EXPECT_TRUE(model("killed") == expected);
}

TEST_F(TrainEndToEnd, AKilledAggregatorIsToldOfAndChangesNoBit) {
  const Model expected = undisturbed();
  Daemon daemon = start_daemon();
  auto members = start("survived", free_port(), daemon.address);
  wait_for_checkpoint("survived", 2);
  ::kill(daemon.process.pid(), SIGKILL);
  expect_success(members);
  EXPECT_TRUE(model("survived") == expected);
  EXPECT_THAT(contents(path("out-0")), HasSubstr(R"("failovers":1)"));
  EXPECT_THAT(contents(path("out-0")), HasSubstr("is gone"));
  EXPECT_THAT(contents(path("errors-1")), HasSubstr("going on with the ranks themselves"));
}

TEST_F(TrainEndToEnd, AnAggregatorThatIsStartedAgainIsUsedAgainAndChangesNoBit) {
  const Model expected = undisturbed();
  Daemon daemon = start_daemon();
  auto members = start("returned", free_port(), daemon.address, {}, "SUMCAST_RETURN_AFTER=10ms");
  wait_for_checkpoint("returned", 2);
  ::kill(daemon.process.pid(), SIGKILL);
  (void)daemon.process.wait(10s);
  daemon = start_daemon(daemon.address);
  std::string shown;
  for (int i = 0; i < 500 && shown.find("came back") == std::string::npos; ++i) {
    shown = status(daemon);
  }
  EXPECT_THAT(shown, HasSubstr("its aggregators were lost 1 time; it came back 1 time"));
  expect_success(members);
  EXPECT_TRUE(model("returned") == expected);
  EXPECT_THAT(contents(path("out-0")), HasSubstr(R"("failovers":1,"returns":1)"));
  EXPECT_THAT(contents(path("errors-1")), HasSubstr("back with sumcastd at " + daemon.address));
}

TEST_F(TrainEndToEnd, AMemberThatDiesEndsAllOthersWhateverStandbysTheyHave) {
  Daemon daemon = start_daemon();
  auto members = start("ended", free_port(), daemon.address);
  wait_for_checkpoint("ended", 1);
  ::kill(members[1].pid(), SIGKILL);
  for (const size_t rank : {0, 2, 3}) {
    const auto status = members[rank].wait(30s);
    ASSERT_TRUE(status.has_value()) << "rank " << rank << " waits";
    EXPECT_EQ(status->code, 1);
    EXPECT_THAT(contents(path("errors-" + std::to_string(rank))), HasSubstr("rank 1"));
  }
}

TEST_F(TrainEndToEnd, AnAggregatorThatIsRequiredIsAnErrorWhenItGoes) {
  Daemon daemon = start_daemon();
  auto members = start("ended", free_port(), daemon.address, {"--require-aggregator"});
  wait_for_checkpoint("ended", 1);
  ::kill(daemon.process.pid(), SIGKILL);
  for (size_t rank = 0; rank < members.size(); ++rank) {
    const auto status = members[rank].wait(60s);
    ASSERT_TRUE(status.has_value());
    EXPECT_EQ(status->code, 1);
    EXPECT_THAT(contents(path("errors-" + std::to_string(rank))), HasSubstr("is gone"));
  }
}

}  // namespace
}  // namespace sumcast::cli
