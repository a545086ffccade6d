// Daemons die and come back at any moment, one or two of them, under jobs with batches ahead and
// asynchronous ones: every gradient counts once.
#include <array>
#include <atomic>

#include "runtime/environment.h"
#include "sparse/test_daemon.h"

namespace sumcast::sparse {
namespace {

using namespace std::chrono_literals;

/// Either daemon or both die at any moment of a life, and are started anew.
void live_and_die(Road& road, bool has_second, Prng& moments) {
  for (int life = 0; life < 6; ++life) {
    const bool is_near = moments.below(2) != 0;  // To the moment at which all could go back.
    for (int i = 0; is_near && i < 500 && !road.seat.load()->is_return_ready(); ++i) {
      std::this_thread::sleep_for(1ms);
    }
    const auto rest = [&](uint64_t us) {
      std::this_thread::sleep_for(std::chrono::microseconds(moments.below(us)));
    };
    rest(is_near ? 20'000 : 150'000);
    const uint64_t who = has_second ? moments.below(3) : 0;
    if (who != 1) road.first->kill();
    rest(10'000);
    if (who != 0) road.second->kill();
    rest(30'000);
    if (who != 0) road.second.emplace(road.second_address);
    if (who != 1) road.first.emplace(road.first_address);
  }
}

struct World {
  bool asynchronous = false;
  uint32_t staleness = 0, admit_after = 0;
  bool has_second = false;
};

/// @return  how often workers went back.
uint64_t count_in_a_restless_world(const World& how, Prng moments) {
  constexpr uint32_t kMany = 110, kLast = 15;  // Rounds, and those that nothing disturbs.
  const CountingJob job(how.asynchronous, how.staleness, kMany, how.admit_after);
  Road road;
  std::promise<void> begun;
  std::thread fate([&] {
    begun.get_future().wait();
    live_and_die(road, how.has_second, moments);
  });
  std::atomic<uint64_t> returns{0};
  const auto errors = run_job(
      job.options(),
      [&](Worker& worker, uint32_t rank) {
        job.run(worker, rank, how.asynchronous ? 0 : 30, [&](uint32_t round) {
          if (round % 5 == 0 && round > 0) meet(worker, 3);
          if (rank == 0 && round == 1) begun.set_value();
          if (rank == round % 3 && round < kMany - kLast) std::this_thread::sleep_for(8ms);
          if (rank == 0 && round == kMany - kLast) fate.join();
        });
        returns += worker.counters().returns;
      },
      road.setup(how.has_second));
  for (const std::string& error : errors) EXPECT_EQ(error, "");
  return returns;
}

/// SUMCAST_KILLS=n: as many worlds instead of a few.
TEST(Restless, EveryGradientCountsOnceWhateverDiesAndWhen) {
  const auto asked = runtime::environment("SUMCAST_KILLS");
  const uint32_t runs = asked ? static_cast<uint32_t>(std::stoi(*asked)) : 4;
  const uint64_t seed = asked ? static_cast<uint64_t>(::getpid()) : 1;
  Prng random(seed);
  uint64_t returns = 0;
  for (uint32_t run = 0; run < runs; ++run) {
    SCOPED_TRACE("seed " + std::to_string(seed) + ", run " + std::to_string(run));
    World how;
    how.asynchronous = run % 4 == 3;
    how.staleness = std::array<uint32_t, 4>{1, 4, 2, 3}[(run + run / 4) % 4];
    how.admit_after = run % 3 == 2 ? 1 : 0;
    how.has_second = (run + run / 4) % 2 == 1;
    returns += count_in_a_restless_world(how, Prng(random.next_u64()));
  }
  std::printf("%u runs, %zu returns of workers\n", runs, static_cast<size_t>(returns));
  EXPECT_GT(returns, 0u);
}

}  // namespace
}  // namespace sumcast::sparse
