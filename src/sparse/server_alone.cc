// A server of an asynchronous job (P21): each worker's rounds are its own, applied as they come.
#include <fmt/format.h>

#include "sparse/server_desk.h"

namespace sumcast::sparse {

/// On the worker's own thread; the others use the segment before and after.
Result<void> Server::answer_alone(Paper& paper, uint32_t segment) {
  if (paper.plan.task == Task::kSave) return {};
  if (auto fine = check_keys(paper, segment); !fine) return fine;
  std::lock_guard lock(segment_locks_[segment]);
  Segment& rows = *segments_[segment];
  const size_t before = rows.table().size();
  Result<void> done;
  if (paper.plan.task == Task::kStep) done = step_alone(paper, segment);
  if (paper.plan.task == Task::kAssign) done = take_in(paper, segment);
  if (!done) return done;
  if (auto sent = reply(paper, segment); !sent) return sent;
  rows_.fetch_add(rows.table().size() - before, std::memory_order_relaxed);
  return {};
}

Result<void> Server::step_alone(const Paper& paper, uint32_t segment) {
  Segment& rows = *segments_[segment];
  const uint64_t step = paper.plan.step, committed = rows.committed(paper.worker);
  if (paper.has(kFresh)) rows.forget_pulled(paper.worker);
  if (step == 0) return {};
  if (step <= committed && committed - step <= options_.staleness) {
    if (!paper.has(kNamed)) rows.skip_pulled(paper.worker);
    return {};
  }
  if (step != committed + 1) {
    return fail(ErrorCode::kMismatch,
                fmt::format("worker {} is in step {}, and this server has committed {} of it",
                            paper.worker, step, committed));
  }
  if (auto in = take_in(paper, segment); !in) return in;
  if (auto applied = rows.apply_alone(paper.worker, step, paper.plan.rate); !applied)
    return applied;
  if (on_commit_) on_commit_(segment, step);
  return {};
}

Result<void> Server::end_alone(Paper& paper) {
  if (paper.plan.task == Task::kSave) return join_save(paper);
  if (paper.plan.task == Task::kAssign) return {};
  Desk& desk = *desks_[paper.worker];
  if (desk.acking) {
    if (auto sent = desk.acking->wait(); !sent) return sent;
  }
  desk.ack = {paper.plan.round};
  const Message ack{&desk.ack, sizeof desk.ack, paper.worker, kAckTag, paper.plan.round};
  auto work = context_->world().exchange_async(std::span(&ack, 1), {});
  if (!work) return fail(work.error());
  desk.acking = std::move(*work);
  if (seat_ != nullptr) seat_->confirm();
  return {};
}

/// A checkpoint is of one moment, at which no worker trains: all wait for it.
Result<void> Server::join_save(const Paper& paper) {
  uint32_t before = 0;
  bool is_last = false;
  {
    std::lock_guard lock(mutex_);
    before = saves_;
    save_rounds_[paper.worker] = paper.plan.round;
    is_last = ++saving_ == options_.workers;
  }
  if (!is_last) {
    return wait_until([&] { return saves_ != before; });
  }
  const uint32_t round = save_rounds_[0];
  if (auto saved = save(this->paper(0, round).order, round); !saved) return saved;
  if (auto told = acknowledge(save_rounds_, 0); !told) return told;
  if (seat_ != nullptr) seat_->confirm();
  std::lock_guard lock(mutex_);
  saving_ = 0;
  ++saves_;
  changed_.notify_all();
  return {};
}

}  // namespace sumcast::sparse
