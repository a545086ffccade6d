// The rules of bounded staleness (P20), in small worlds, exhaustively.
#include "sparse/clock.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "sparse/round_book.h"

namespace sumcast::sparse {
namespace {

/// All orders of calls up to a length.
void call_in_all_orders(Clock clock, uint32_t staleness, int calls) {
  ASSERT_GE(clock.seen() + 1 + staleness, clock.now());
  ASSERT_LE(clock.seen(), clock.given());
  if (calls == 0) return;
  if (clock.may_announce()) {
    Clock next = clock;
    next.on_announce();
    ASSERT_EQ(next.seen(), clock.seen()) << "the current rows stay what they are";
    call_in_all_orders(next, staleness, calls - 1);
  }
  Clock pushed = clock, reset = clock;
  pushed.on_push();
  pushed.on_turn();
  ASSERT_GE(pushed.seen(), clock.seen()) << "reads never go back";
  call_in_all_orders(pushed, staleness, calls - 1);
  reset.on_reset();
  ASSERT_EQ(reset.seen(), reset.given());
  call_in_all_orders(reset, staleness, calls - 1);
}

TEST(Clock, NoOrderOfCallsReadsOlderRowsThanStalenessAllows) {
  for (uint32_t staleness = 0; staleness < 4; ++staleness) {
    call_in_all_orders(Clock(staleness), staleness, 9);
  }
}

TEST(Clock, WithBatchesAheadReadsAreThatOldAndNoOlder) {
  Clock clock(3);
  for (int i = 0; i < 3; ++i) clock.on_announce();
  EXPECT_FALSE(clock.may_announce());
  for (uint64_t step = 1; step <= 10; ++step) {
    EXPECT_EQ(clock.now(), step);
    EXPECT_EQ(clock.seen(), step <= 4 ? 0 : step - 4);
    clock.on_push();
    clock.on_turn();
  }
}

/// Workers that announce `staleness` batches and give `steps` gradients, a server, and a network
/// that delivers whenever it likes.
class World {
 public:
  World(uint32_t workers, uint32_t segments, uint32_t staleness, uint32_t steps)
      : staleness_(staleness),
        segments_(segments),
        rounds_(1 + staleness + steps),
        book_(workers, segments, staleness),
        workers_(workers, Member(staleness)) {}

  /// Events that could happen now, by number.
  std::vector<int> possible() const {
    std::vector<int> events;
    for (int w = 0; w < static_cast<int>(workers_.size()); ++w) {
      const Member& worker = workers_[w];
      const bool may_post = worker.turns != 0 && worker.posted - worker.turns <= staleness_;
      if (worker.posted == 0 || (worker.posted < rounds_ && may_post)) events.push_back(3 * w);
      const uint32_t round = worker.parts / segments_;
      if (round < worker.posted && book_.may_begin(round)) events.push_back(3 * w + 1);
      if (worker.turns < worker.posted && worker.turns < book_.ended()) events.push_back(3 * w + 2);
    }
    return events;
  }

  void happen(int event) {
    Member& worker = workers_[event / 3];
    if (event % 3 == 0) post(worker);
    if (event % 3 == 1) bring_part(worker);
    if (event % 3 == 2) take_turn(worker);
  }

  bool is_over() const {
    for (const Member& worker : workers_) {
      if (worker.turns != rounds_) return false;
    }
    return true;
  }
  std::vector<uint32_t> state() const {
    std::vector<uint32_t> all;
    for (const Member& worker : workers_) {
      all.insert(all.end(), {worker.posted, worker.parts, worker.turns});
    }
    return all;
  }
  /// How far apart workers have been.
  uint32_t widest() const { return widest_; }

 private:
  struct Member {
    explicit Member(uint32_t staleness) : clock(staleness) {}
    Clock clock;
    uint32_t posted = 0, turns = 0;  // Rounds: the pull, the announced batches, the steps.
    uint32_t parts = 0;              // Brought to the server, over all rounds.
  };

  void post(Member& worker) {
    if (worker.posted > staleness_) {
      worker.clock.on_push();
    } else {
      ASSERT_TRUE(worker.posted == 0 || worker.clock.may_announce());
      worker.clock.on_announce();
    }
    ++worker.posted;
  }

  /// A segment commits a step when all have brought it; what is read then contains it.
  void bring_part(Member& worker) {
    const uint32_t round = worker.parts / segments_, segment = worker.parts % segments_;
    ASSERT_LT(round - book_.ended(), book_.places()) << "its place is still in use";
    ++worker.parts;
    if (!book_.arrive(round, segment)) return;
    for (const Member& other : workers_) ASSERT_GE(other.parts, worker.parts);
    if (!book_.handled()) return;
    ASSERT_EQ(book_.ended(), round) << "rounds are over in order";
    book_.end_round();
  }

  void take_turn(Member& worker) {
    worker.clock.on_turn();
    const uint64_t contained = worker.turns <= staleness_ ? 0 : worker.turns - staleness_;
    ++worker.turns;
    ASSERT_EQ(worker.clock.seen(), contained);
    ASSERT_GE(worker.clock.seen() + 1 + staleness_, worker.clock.now());
    for (const Member& other : workers_) {
      if (worker.turns > other.turns) widest_ = std::max(widest_, worker.turns - other.turns);
    }
  }

  uint32_t staleness_, segments_, rounds_;
  RoundBook book_;
  std::vector<Member> workers_;
  uint32_t widest_ = 0;
};

/// Every state that some order of events leads to. @return how far apart workers were at most.
uint32_t explore(uint32_t workers, uint32_t segments, uint32_t staleness, uint32_t steps) {
  std::set<std::vector<uint32_t>> seen;
  std::vector<std::vector<int>> paths = {{}};
  uint32_t widest = 0;
  bool has_ended = false;
  while (!paths.empty()) {
    const std::vector<int> path = std::move(paths.back());
    paths.pop_back();
    World world(workers, segments, staleness, steps);
    for (const int event : path) world.happen(event);
    if (testing::Test::HasFatalFailure()) return 0;
    if (!seen.insert(world.state()).second) continue;
    widest = std::max(widest, world.widest());
    has_ended |= world.is_over();
    const std::vector<int> events = world.possible();
    EXPECT_TRUE(!events.empty() || world.is_over()) << "nothing can happen any more";
    for (const int event : events) {
      paths.push_back(path);
      paths.back().push_back(event);
    }
  }
  EXPECT_TRUE(has_ended);
  return widest;
}

TEST(Clock, InAllOrdersOfEventsReadsAreExactPlacesFreeAndNobodyWaitsForEver) {
  for (uint32_t staleness = 0; staleness < 3; ++staleness) {
    for (const uint32_t segments : {1u, 2u}) {
      // Who has ended a round knows that all have begun it, and they are no further behind.
      EXPECT_EQ(explore(2, segments, staleness, 3), staleness + 1);
    }
    EXPECT_EQ(explore(3, 1, staleness, 2), staleness + 1);
  }
}

}  // namespace
}  // namespace sumcast::sparse
