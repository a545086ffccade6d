// The aggregator dies: a real sumcastd, killed while workers train.
#include "sparse/test_daemon.h"

#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <atomic>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "lab/process.h"
#include "runtime/environment.h"

namespace sumcast::sparse {

struct Daemon::Running {
  lab::Process process;
};

Daemon::Daemon(const std::string& listen) : running_(std::make_unique<Running>()) {
  const std::string key = testing::TempDir() + "sparse_key_" + std::to_string(::getpid());
  FILE* const file = std::fopen(key.c_str(), "w");
  for (int i = 0; i < 32; ++i) std::fputs("5A", file);
  std::fclose(file);
  ::chmod(key.c_str(), 0600);
  lab::SpawnOptions options;
  options.output = lab::Redirect::pipe();
  running_->process = lab::spawn_process({SUMCASTD, "--json-ready", "--listen", listen, "--http",
                                          "", "--threads", "1", "--key-file", key},
                                         options)
                          .value();
  const auto line = running_->process.read_line(std::chrono::seconds(20));
  std::filesystem::remove(key);
  address_ = nlohmann::json::parse(line.value()).at("listen").get<std::string>();
}

Daemon::~Daemon() = default;

void Daemon::kill() const {
  ::kill(running_->process.pid(), SIGKILL);
  siginfo_t ended{};  // It is gone when this returns; its owner reaps it.
  ::waitid(P_PID, static_cast<id_t>(running_->process.pid()), &ended, WEXITED | WNOWAIT);
}

namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

Outcome run(const Options& options, const std::string& aggregator,
            const std::function<void(uint32_t rank, uint32_t round)>& on_round,
            const std::function<void(Server&)>& on_server = {}) {
  Outcome outcome;
  std::atomic<uint64_t> failovers{0}, repeated{0};
  const auto errors = run_job(options,
                              [&](Worker& worker, uint32_t rank) {
                                train(worker, rank, options, outcome.final,
                                      [&](uint32_t round) { on_round(rank, round); });
                                failovers += worker.counters().failovers;
                                repeated += worker.counters().repeated;
                              },
                              {.faults = {},
                               .delays = {},
                               .aggregator = aggregator,
                               .seats = true,
                               .on_server = on_server});
  for (const std::string& error : errors) EXPECT_EQ(error, "");
  outcome.failovers = failovers;
  outcome.repeated = repeated;
  return outcome;
}

TEST(Recovery, WithoutAFailureNothingIsRepeated) {
  const Options options = small(3, 2, table::OptimizerKind::kAdagrad);
  Daemon daemon;
  const Outcome outcome = run(options, daemon.address(), [](uint32_t, uint32_t) {});
  expect_equal_bits(outcome.final, reference(options, kRounds));
  EXPECT_EQ(outcome.failovers, 0u);
  EXPECT_EQ(outcome.repeated, 0u);
}

/// SUMCAST_KILLS=n: as many moments instead of a few.
TEST(Recovery, AnAggregatorKilledAtAnyMomentChangesNoBit) {
  const auto asked = runtime::environment("SUMCAST_KILLS");
  const int kills = asked ? std::stoi(*asked) : 8;
  const uint64_t seed = asked ? static_cast<uint64_t>(::getpid()) : 1;
  Prng random(seed);
  uint64_t failovers = 0, repeated = 0;
  for (int i = 0; i < kills; ++i) {
    SCOPED_TRACE("seed " + std::to_string(seed) + ", kill " + std::to_string(i));
    Options options = small(3, 2, static_cast<table::OptimizerKind>(i % 6));
    Daemon daemon;
    // At a random moment after a random round of a random worker has begun.
    const auto who = static_cast<uint32_t>(random.below(3));
    const auto when = static_cast<uint32_t>(random.below(kRounds));
    const auto later = std::chrono::microseconds(random.below(3000));
    std::promise<void> moment;
    std::thread killer([&, moment = moment.get_future()]() mutable {
      moment.wait();
      std::this_thread::sleep_for(later);
      daemon.kill();
    });
    const Outcome outcome = run(options, daemon.address(), [&](uint32_t rank, uint32_t round) {
      if (rank == who && round == when) moment.set_value();
    });
    killer.join();
    expect_equal_bits(outcome.final, reference(options, kRounds));
    failovers += outcome.failovers;
    repeated += outcome.repeated;
  }
  std::printf("%d kills, %zu failovers of workers, %zu operations repeated\n", kills,
              static_cast<size_t>(failovers), static_cast<size_t>(repeated));
  EXPECT_GT(failovers, 0u);
}

/// The server has applied a step, and nobody has heard of it.
TEST(Recovery, AKillBetweenApplyAndAcknowledgementIsNotCountedTwice) {
  for (const bool after_loss : {true, false}) {
    const Options options = small(3, 2, table::OptimizerKind::kMomentum);
    Daemon daemon;
    const Outcome outcome = run(
        options, daemon.address(), [](uint32_t, uint32_t) {},
        [&](Server& server) {
          server.observe_commits([&](uint32_t segment, uint64_t step) {
            if (step != 9 || segment != 1) return;
            daemon.kill();
            // Until everybody knows that the aggregator is gone, or at once.
            if (after_loss) std::this_thread::sleep_for(300ms);
          });
        });
    expect_equal_bits(outcome.final, reference(options, kRounds));
    EXPECT_EQ(outcome.failovers, 3u);
  }
}

/// Its datagrams come late, so the others are through with a step when it is not: most times, for
/// the kill may come late as well.
TEST(Recovery, WhoIsAheadGoesThroughTheStepAgainForWhoIsBehind) {
  const Options options = small(3, 2, table::OptimizerKind::kAdagrad);
  std::atomic<uint64_t> repeated{0};
  for (int attempt = 0; attempt < 5 && repeated == 0; ++attempt) {
    Daemon daemon;
    JobSetup setup;
    setup.aggregator = daemon.address();
    setup.seats = true;
    setup.delays[1] = 20ms;
    Rows final;
    run_job(
        options,
        [&](Worker& worker, uint32_t rank) {
          train(worker, rank, options, final, [&](uint32_t round) {
            if (rank == 0 && round == 11) daemon.kill();  // Its step 10 has just ended.
          });
          repeated += worker.counters().repeated;
        },
        setup);
    expect_equal_bits(final, reference(options, kRounds));
  }
  EXPECT_GE(repeated, 1u) << "by worker 0, and by 2 if it was as far";
}

TEST(Recovery, TheNextDaemonIsTakenBeforeTheRanksThemselves) {
  const Options options = small(2, 1, table::OptimizerKind::kSgd);
  Daemon first, second;
  const Outcome outcome =
      run(options, first.address() + "," + second.address(), [&](uint32_t rank, uint32_t round) {
        if (rank == 1 && round == 5) first.kill();
        if (rank == 0 && round == 15) second.kill();
      });
  expect_equal_bits(outcome.final, reference(options, kRounds));
  EXPECT_EQ(outcome.failovers, 4u);
}

void count_through_kills(bool asynchronous, uint32_t staleness, uint32_t kill_at, size_t hot) {
  const CountingJob job(asynchronous, staleness);
  Daemon daemon;
  JobSetup setup;
  setup.aggregator = daemon.address();
  setup.seats = true;
  std::atomic<uint64_t> failovers{0};
  const auto errors = run_job(
      job.options(),
      [&](Worker& worker, uint32_t rank) {
        job.run(worker, rank, hot, [&](uint32_t round) {
          if (rank == kill_at % 3 && round == kill_at) daemon.kill();
          if (rank == round % 3) std::this_thread::sleep_for(2ms);
        });
        failovers += worker.counters().failovers;
      },
      setup);
  for (const std::string& error : errors) EXPECT_EQ(error, "");
  EXPECT_EQ(failovers, 3u);
}

TEST(Recovery, WithBatchesAheadEveryGradientCountsOnce) {
  Prng random(11);
  for (uint32_t run = 0; run < 8; ++run) {
    count_through_kills(false, 1 + run % 4, 2 + static_cast<uint32_t>(random.below(20)), 30);
  }
}

TEST(Recovery, InAnAsynchronousJobEveryGradientCountsOnce) {
  Prng random(12);
  for (uint32_t run = 0; run < 6; ++run) {
    count_through_kills(true, run % 3, 2 + static_cast<uint32_t>(random.below(20)), 0);
  }
}

TEST(Recovery, WithoutSeatsTheLossIsAnErrorOnAllMembers) {
  const Options options = small(2, 1, table::OptimizerKind::kSgd);
  Daemon daemon;
  const auto errors = run_job(options,
                              [&](Worker& worker, uint32_t rank) {
                                // All have begun it when it has ended.
                                Result<void> done = worker.pull(batch(rank, 1));
                                if (rank == 0) daemon.kill();
                                while (done) done = worker.pull(batch(rank, 1));
                                EXPECT_THAT(done.error().what, HasSubstr("is gone"));
                              },
                              {.faults = {},
                               .delays = {},
                               .aggregator = daemon.address(),
                               .seats = false,
                               .on_server = {}});
  // A server may hear first that a worker, which has heard of it, leaves.
  EXPECT_THAT(errors[2], testing::AnyOf(HasSubstr("is gone"), HasSubstr("has aborted the group")));
}

TEST(Recovery, AnErrorThatIsNotTheAggregatorsIsNotRepeated) {
  const Options options = small(2, 1, table::OptimizerKind::kSgd);
  Daemon daemon;
  const auto errors = run_job(
      options,
      [&](Worker& worker, uint32_t rank) {
        const std::vector<uint64_t> twice = {7, 8, 7}, once = {7};
        ASSERT_FALSE(worker.pull(rank == 1 ? twice : once).has_value());
        EXPECT_EQ(worker.counters().failovers, 0u);
      },
      {.faults = {}, .delays = {}, .aggregator = daemon.address(), .seats = true, .on_server = {}});
  EXPECT_THAT(errors[2], HasSubstr("worker 1 pulled key 7 twice"));
}

}  // namespace
}  // namespace sumcast::sparse
