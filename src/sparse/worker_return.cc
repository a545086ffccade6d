// How workers go back to an aggregator that has returned (P23): the scouts have joined it, and all
// move over before the same operation.
//
//   worker 0     its scout says ready: it marks the rounds that it posts
//   servers      put worker 0's mark into the acks of that round, to all workers
//   all workers  staleness + 1 rounds behind the first marked one, before they post: all that is
//                under way lands, kMove to the servers, on in the better place, its round 0
//
// The number of rounds that may be under way is why nobody has posted that one before hearing of
// the mark. Behind the move workers compare their operations as after a failover, for some may have
// come here by one; what each keeps for the others (P17) serves both.
#include <array>

#include <fmt/format.h>

#include "sparse/worker.h"

namespace sumcast::sparse {

/// Of a flight that has landed. The first marked one counts, on all workers the same.
void Worker::heed_marks(const Flight& flight) {
  if (return_at_ || flight.acks.empty()) return;
  if ((flight.acks.front().marks & kReturnMark) == 0) return;
  return_at_ = flight.number + options_.staleness + 1;
}

Result<void> Worker::go_back_if_due() {
  if (!return_at_ || launched_ != *return_at_) return {};
  return go_back();
}

/// Rounds of an asynchronous job are each worker's own; but all call the same operations among
/// workers. In front of each of those they hear whether worker 0's scout is ready.
Result<void> Worker::agree_on_return() {
  if (!options_.asynchronous || seat_ == nullptr || !seat_->has_places()) return {};
  int64_t answer = 0;
  const auto ask = [this](int64_t mine, int64_t* out) -> Result<void> {
    std::array<int64_t, 1> ready = {mine};
    auto done = group_.all_reduce(std::span<int64_t>(ready), Reduction::kMax);
    if (done) *out = ready[0];
    return done;
  };
  const auto run = [&] { return ask(seat_->is_return_ready() ? 1 : 0, &answer); };
  // Repeated, it is for one who has changed places since: the answer is no longer about that.
  const Action again = [ask] {
    int64_t known = 0;
    return ask(0, &known);
  };
  if (auto done = perform_here(run, again); !done) return done;
  return answer == 0 ? Result<void>() : go_back();
}

/// The last word to the servers in this context.
Result<void> Worker::say_move() {
  if (flushing_) {
    if (auto sent = flushing_->wait(); !sent) return sent;
    flushing_.reset();
  }
  Plan plan;
  plan.task = Task::kMove;
  plan.round = round_;
  std::vector<Message> sends;
  for (uint32_t server = 0; server < options_.servers; ++server) {
    sends.push_back({&plan, plan_bytes(options_.segments), options_.workers + server, kPlanTag, 0});
  }
  return context_->world().exchange(sends, {});
}

Result<void> Worker::go_back() {
  const uint64_t before = entered_;
  if (auto landed = land_all(); !landed) return landed;
  if (entered_ != before) return {};  // The way there was by a failover.
  if (auto told = say_move(); !told) return recover(told.error());
  if (!seat_->go_back(fmt::format("{} steps are given", clock_.given()))) return {};
  enter_context();
  if (auto level = help_others(); !level) return recover(level.error());
  return {};
}

}  // namespace sumcast::sparse
