// The aggregator dies and comes back: a real sumcastd, killed and started again on its port (P23).
#include <atomic>
#include <optional>

#include "runtime/environment.h"
#include "sparse/test_daemon.h"

namespace sumcast::sparse {
namespace {

using namespace std::chrono_literals;

constexpr auto kPatience = 20s;
constexpr uint32_t kManyRounds = 60;

/// Waits until all members have joined the daemon that came back.
void await_return(const std::atomic<Seat*>& seat) {
  const auto until = std::chrono::steady_clock::now() + kPatience;
  while (!seat.load()->is_return_ready()) {
    ASSERT_LT(std::chrono::steady_clock::now(), until) << "nobody comes back";
    std::this_thread::sleep_for(1ms);
  }
}

JobSetup coming_back_to(const std::string& aggregator, std::atomic<Seat*>& first) {
  JobSetup setup;
  setup.aggregator = aggregator;
  setup.seats = true;
  setup.return_after = 10ms;
  setup.on_seat = [&](Seat& seat, uint32_t rank) {
    if (rank == 0) first.store(&seat);
  };
  return setup;
}

Outcome train_with(const Options& options, const JobSetup& setup, uint32_t rounds,
                   const std::function<void(uint32_t rank, uint32_t round)>& on_round) {
  Outcome outcome;
  std::atomic<uint64_t> failovers{0}, returns{0}, repeated{0};
  const auto errors = run_job(
      options,
      [&](Worker& worker, uint32_t rank) {
        train(
            worker, rank, options, outcome.final, [&](uint32_t round) { on_round(rank, round); },
            rounds);
        failovers += worker.counters().failovers;
        returns += worker.counters().returns;
        repeated += worker.counters().repeated;
      },
      setup);
  for (const std::string& error : errors) EXPECT_EQ(error, "");
  outcome.failovers = failovers;
  outcome.returns = returns;
  outcome.repeated = repeated;
  return outcome;
}

TEST(Return, TrainingGoesBackEachTimeAndNoBitChanges) {
  const Options options = small(3, 2, table::OptimizerKind::kAdagrad);
  std::atomic<Seat*> seat{nullptr};
  std::optional<Daemon> daemon(std::in_place);
  const std::string address = daemon->address();
  const Outcome outcome = train_with(options, coming_back_to(address, seat), kManyRounds,
                                     [&](uint32_t rank, uint32_t round) {
                                       if (rank != 0) return;
                                       if (round % 12 == 2) daemon->kill();
                                       if (round % 12 != 5) return;
                                       daemon.emplace(address);
                                       await_return(seat);
                                     });
  expect_equal_bits(outcome.final, reference(options, kManyRounds));
  EXPECT_EQ(outcome.failovers, 3 * 5u);
  EXPECT_EQ(outcome.returns, 3 * 5u);
}

/// Dies at any moment of a life, or near that at which all members are ready to go back.
void live_and_die(std::optional<Daemon>& daemon, const std::atomic<Seat*>& seat, Prng& moments) {
  const std::string address = daemon->address();
  for (int life = 0; life < 5; ++life) {
    const bool is_near = life != 0 && moments.below(3) != 0;
    for (int i = 0; is_near && i < 2000 && !seat.load()->is_return_ready(); ++i) {
      std::this_thread::sleep_for(1ms);
    }
    const uint64_t us = moments.below(is_near ? 30'000 : 200'000);
    std::this_thread::sleep_for(std::chrono::microseconds(us));
    daemon->kill();
    std::this_thread::sleep_for(20ms);
    daemon.emplace(address);
  }
}

/// SUMCAST_KILLS=n: as many moments instead of a few. A daemon that has come back dies again while
/// members join it, when all have, or when some have gone over; then it is started anew.
TEST(Return, ADaemonThatDiesAgainAtAnyMomentChangesNoBit) {
  const auto asked = runtime::environment("SUMCAST_KILLS");
  const int runs = asked ? std::stoi(*asked) : 4;
  const uint64_t seed = asked ? static_cast<uint64_t>(::getpid()) : 1;
  Prng random(seed);
  uint64_t failovers = 0, returns = 0, repeated = 0;
  for (int i = 0; i < runs; ++i) {
    SCOPED_TRACE("seed " + std::to_string(seed) + ", run " + std::to_string(i));
    const Options options = small(3, 2, static_cast<table::OptimizerKind>(i % 6));
    std::atomic<Seat*> seat{nullptr};
    std::optional<Daemon> daemon(std::in_place);
    const std::string address = daemon->address();
    std::promise<void> begun;
    std::thread fate([&, moments = Prng(random.next_u64())]() mutable {
      begun.get_future().wait();
      live_and_die(daemon, seat, moments);
    });
    const auto on_round = [&](uint32_t rank, uint32_t round) {
      if (rank == 0 && round == 1) begun.set_value();
      if (rank == round % 3 && round < kManyRounds - 10) std::this_thread::sleep_for(12ms);
      if (rank == 0 && round == kManyRounds - 10) fate.join();  // It was a job under way.
    };
    const Outcome outcome =
        train_with(options, coming_back_to(address, seat), kManyRounds, on_round);
    expect_equal_bits(outcome.final, reference(options, kManyRounds));
    failovers += outcome.failovers;
    returns += outcome.returns;
    repeated += outcome.repeated;
  }
  std::printf("%d runs, %zu failovers and %zu returns of workers, %zu operations repeated\n", runs,
              static_cast<size_t>(failovers), static_cast<size_t>(returns),
              static_cast<size_t>(repeated));
  EXPECT_GT(returns, 0u);
}

TEST(Return, TheFirstDaemonIsPreferredToTheOneThatStoodInForIt) {
  const Options options = small(2, 1, table::OptimizerKind::kMomentum);
  std::atomic<Seat*> seat{nullptr};
  std::optional<Daemon> first(std::in_place), second(std::in_place);
  const std::string address = first->address();
  const std::string stand_in = "sumcastd at " + second->address();
  const Outcome outcome =
      train_with(options, coming_back_to(address + "," + second->address(), seat), kManyRounds,
                 [&](uint32_t rank, uint32_t round) {
                   if (rank != 0) return;
                   if (round == 5 || round == 25) first->kill();
                   if (round == 10 || round == 30) {
                     EXPECT_EQ(seat.load()->place(), stand_in) << "the same context again";
                   }
                   if (round != 12) return;
                   first.emplace(address);
                   await_return(seat);
                 });
  expect_equal_bits(outcome.final, reference(options, kManyRounds));
  EXPECT_EQ(outcome.failovers, 2 * 2u);
  EXPECT_EQ(outcome.returns, 2u);
}

TEST(Return, NobodyGoesBackWhereThatIsNotWanted) {
  const Options options = small(2, 1, table::OptimizerKind::kSgd);
  std::atomic<Seat*> seat{nullptr};
  std::optional<Daemon> daemon(std::in_place);
  const std::string address = daemon->address();
  JobSetup setup = coming_back_to(address, seat);
  setup.return_after = 0ns;
  const Outcome outcome = train_with(options, setup, kRounds, [&](uint32_t rank, uint32_t round) {
    if (rank != 0 || round != 3) return;
    daemon->kill();
    daemon.emplace(address);
  });
  expect_equal_bits(outcome.final, reference(options, kRounds));
  EXPECT_EQ(outcome.failovers, 2u);
  EXPECT_EQ(outcome.returns, 0u);
}

/// Every gradient is 1 and the optimiser counts: a lost or doubled one shows in the end.
void count_there_and_back(bool asynchronous, uint32_t staleness, size_t hot) {
  const CountingJob job(asynchronous, staleness);
  std::atomic<Seat*> seat{nullptr};
  std::optional<Daemon> daemon(std::in_place);
  const std::string address = daemon->address();
  std::atomic<uint64_t> returns{0};
  const auto errors = run_job(
      job.options(),
      [&](Worker& worker, uint32_t rank) {
        job.run(worker, rank, hot, [&](uint32_t round) {
          if (round % 6 == 0 && round > 0) {
            std::array<double, 1> number = {1};
            const auto summed = worker.all_reduce(std::span<double>(number));
            ASSERT_TRUE(summed.has_value()) << summed.error().what;
            ASSERT_EQ(number[0], 3);
          }
          if (rank == 0 && (round == 4 || round == 14)) daemon->kill();
          if (rank == 0 && (round == 8 || round == 18)) {
            daemon.emplace(address);
            await_return(seat);
          }
        });
        returns += worker.counters().returns;
      },
      coming_back_to(address, seat));
  for (const std::string& error : errors) EXPECT_EQ(error, "");
  EXPECT_EQ(returns, 3 * 2u);
}

TEST(Return, WithBatchesAheadEveryGradientCountsOnce) {
  for (const uint32_t staleness : {1, 3}) count_there_and_back(false, staleness, 30);
}

TEST(Return, InAnAsynchronousJobEveryGradientCountsOnce) {
  for (const uint32_t staleness : {0, 2}) count_there_and_back(true, staleness, 0);
}

}  // namespace
}  // namespace sumcast::sparse
