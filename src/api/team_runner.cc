#include "api/team_runner.h"

#include <algorithm>
#include <optional>

#include "api/overdue.h"
#include "base/assert.h"
#include "runtime/clock.h"

namespace sumcast::api {
namespace {

/// How long the thread leaves an operation to a caller that may come to wait for it.
constexpr Duration kGrace = std::chrono::microseconds(100);
/// How long an abort may take to come back from the coordinator.
constexpr Duration kAbortPatience = std::chrono::seconds(2);

std::unique_ptr<EngineUplink> make_uplink(collective::Engine& engine,
                                          std::optional<GroupId> leaders) {
  return leaders ? std::make_unique<EngineUplink>(engine, *leaders) : nullptr;
}

}  // namespace

Result<void> EngineUplink::post(const wire::OperationDescriptor& what, const std::byte* in,
                                std::byte* out) {
  auto operation = engine_.submit(leaders_, route_, what, in, out);
  if (!operation) return fail(operation.error());
  under_way_.push_back(std::move(*operation));
  return {};
}

Result<bool> EngineUplink::collect(Instant deadline) {
  SUMCAST_ASSERT(!under_way_.empty());
  if (!engine_.wait(*under_way_.front(), deadline)) return false;
  const std::optional<Error> error = under_way_.front()->error;
  under_way_.pop_front();
  if (error) return fail(*error);
  return true;
}

TeamRunner::TeamRunner(const control::GroupPlan& plan, host::Segment segment, host::Layout layout,
                       std::optional<GroupId> leaders, collective::Engine& engine, Duration look,
                       TeamReports reports)
    : plan_(plan),
      leaders_(leaders),
      reports_(std::move(reports)),
      team_(
          std::move(segment), std::move(layout),
          [&] {
            auto uplink = make_uplink(engine, leaders);
            uplink_ = uplink.get();
            return uplink;
          }(),
          *this, look),
      last_change_(runtime::monotonic_now()) {}

TeamRunner::~TeamRunner() { stop(); }

void TeamRunner::stop() {
  std::thread thread;
  std::optional<Error> error;
  {
    const Lock lock(mutex_);
    stopping_ = true;
    if (running_ || !queue_.empty()) {
      error = {ErrorCode::kAborted, "a rank closed the group in the middle of an operation"};
      team_.abort(*error);
    }
    thread = std::move(thread_);
    changed_.notify_all();
  }
  // Leaders of other hosts, and our own in the middle of a piece, do not see the segment's abort.
  if (error) reports_.give_up(*error);
  if (thread.joinable()) thread.join();
}

void TeamRunner::drain() {
  Lock lock(mutex_);
  changed_.wait_for(lock, kAbortPatience, [&] { return !running_ && queue_.empty(); });
}

Result<std::shared_ptr<TeamWork>> TeamRunner::submit(wire::OperationDescriptor what,
                                                     collective::Route route, const void* in,
                                                     void* out, Instant deadline, bool waits) {
  if (const auto error = team_.aborted()) return fail(*error);
  auto work = std::make_shared<TeamWork>();
  work->in = in;
  work->out = out;
  work->route = route;
  work->posted_at = runtime::monotonic_now();
  work->deadline = deadline;
  const Lock lock(mutex_);
  what.group = plan_.group;
  what.sequence = ++posted_;
  work->what = what;
  history_[what.sequence % kHistory] = what;
  if (queue_.empty() && !running_) last_change_ = work->posted_at;
  queue_.push_back(work);
  if (waits) return work;
  if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  if (thread_idle_) changed_.notify_all();
  return work;
}

Result<void> TeamRunner::wait(const std::shared_ptr<TeamWork>& work, Instant deadline) {
  deadline = std::min(deadline, work->deadline);
  bool reported = false;
  Lock lock(mutex_);
  while (!work->done.load(std::memory_order_relaxed)) {
    if (!running_ && !queue_.empty() && queue_.front() == work) {
      run_front(lock, deadline);  // Reports by itself when the deadline passes.
      break;
    }
    if (!running_ && !queue_.empty()) {
      // Earlier ones, whose callers have not come: for the thread.
      if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
      if (thread_idle_) changed_.notify_all();
    }
    const Instant now = runtime::monotonic_now();
    if (now >= deadline) {
      if (reported) team_.abort({ErrorCode::kTimeout, "timed out behind an earlier operation"});
      const wire::OperationDescriptor what = work->what;
      lock.unlock();
      if (!reported) on_overdue(what);
      lock.lock();
      reported = true;
      deadline = now + kAbortPatience;
      continue;
    }
    const Duration left = std::min<Duration>(deadline - now, std::chrono::seconds(1));
    changed_.wait_for(lock, left);
  }
  return work->outcome;
}

/// Runs the queue's front; the lock is released meanwhile.
void TeamRunner::run_front(Lock& lock, Instant deadline) {
  running_ = std::move(queue_.front());
  queue_.pop_front();
  const std::shared_ptr<TeamWork> work = running_;
  lock.unlock();
  if (uplink_ != nullptr) uplink_->set_route(work->route);
  Result<void> outcome = team_.run({work->what, work->in, work->out, deadline});
  lock.lock();
  running_.reset();
  if (outcome) ++completed_;
  last_change_ = queue_.empty() ? runtime::monotonic_now() : queue_.front()->posted_at;
  work->outcome = std::move(outcome);
  work->done.store(true, std::memory_order_release);
  changed_.notify_all();
}

void TeamRunner::run() {
  Lock lock(mutex_);
  while (!stopping_ || !queue_.empty()) {
    if (running_ || queue_.empty()) {
      thread_idle_ = true;
      changed_.wait(lock);
      thread_idle_ = false;
      continue;
    }
    const std::shared_ptr<TeamWork> front = queue_.front();
    if (runtime::monotonic_now() < front->posted_at + kGrace) {
      changed_.wait_for(lock, kGrace);
      if (running_ || queue_.empty() || queue_.front() != front) continue;
    }
    run_front(lock, front->deadline);
  }
}

control::GroupActivity TeamRunner::activity() {
  const Lock lock(mutex_);
  const Instant now = runtime::monotonic_now();
  control::GroupActivity one;
  one.group = plan_.group;
  one.posted = posted_;
  one.completed = completed_;
  if (posted_ > completed_) {
    one.operation = wire::describe(history_[(completed_ + 1) % kHistory]);
  } else if (posted_ > 0) {
    one.operation = wire::describe(history_[posted_ % kHistory]);
  }
  const Instant since = running_ ? running_->posted_at : last_change_;
  if (running_ || !queue_.empty()) {
    one.left = control::time_left((running_ ? running_ : queue_.front())->deadline, now);
  }
  one.age = std::chrono::duration_cast<std::chrono::milliseconds>(now - since);
  return one;
}

std::optional<wire::OperationDescriptor> TeamRunner::find(uint64_t sequence, uint32_t digest,
                                                          uint64_t fingerprint) {
  const Lock lock(mutex_);
  for (uint32_t back = 0; back < kHistory && back < posted_; ++back) {
    const wire::OperationDescriptor& one = history_[(posted_ - back) % kHistory];
    const bool is_it = fingerprint != 0 ? wire::fingerprint_of(one) == fingerprint
                       : sequence != 0  ? one.sequence == sequence
                                        : wire::digest_of(one) == digest;
    if (is_it) return one;
  }
  return std::nullopt;
}

void TeamRunner::on_overdue(const wire::OperationDescriptor& what) {
  Instant since;
  {
    const Lock lock(mutex_);
    since = running_ ? running_->posted_at : last_change_;
  }
  reports_.overdue(overdue_of(plan_.group, what, since));
}

void TeamRunner::on_mismatch(uint32_t seat_a, uint32_t digest_a, uint32_t seat_b,
                             uint32_t digest_b) {
  const std::vector<uint32_t>& places = team_.layout().neighbours();
  control::Mismatch mismatch;
  mismatch.group = plan_.group;
  mismatch.rank_a = plan_.ranks[places[seat_a]];
  mismatch.digest_a = digest_a;
  mismatch.rank_b = plan_.ranks[places[seat_b]];
  mismatch.digest_b = digest_b;
  reports_.mismatch(mismatch);
}

}  // namespace sumcast::api
