// Baselines of a group: queued, and run in call order by whoever waits, or else by a thread.
#include <fmt/format.h>

#include "api/context_state.h"
#include "api/overdue.h"
#include "runtime/clock.h"

namespace sumcast {
namespace {

using wire::OperationDescriptor;
using wire::OperationKind;

/// What a rank finds by itself while an operation runs, and the coordinator may not know.
bool is_finding(ErrorCode code) {
  return code == ErrorCode::kMismatch || code == ErrorCode::kUnavailable;
}

void conclude(Work::State& work, Result<void> outcome) {
  std::lock_guard lock(work.mutex);
  work.outcome = std::move(outcome);
  work.changed.notify_all();
}

}  // namespace

Result<Work> Group::State::submit_mesh(const std::shared_ptr<State>& self, Algorithm algorithm,
                                       const OperationDescriptor& what, const void* in, void* out,
                                       Instant deadline, bool waits) {
  if (what.format != WireFormat::kNative) {
    return fail(
        ErrorCode::kUnsupported,
        fmt::format("{} has no wire formats; use in-network or direct", name_of(algorithm)));
  }
  Work work;
  work.state_ = std::make_shared<Work::State>();
  work.state_->group = self;
  work.state_->deadline = deadline;
  std::lock_guard lock(runner->mutex);
  const uint32_t sequence = ++mesh_sequence;
  // Deferred: a caller that waits at once runs it in its own thread (wait_mesh).
  runner->queue.push_back(
      {work.state_, algorithm, what, in, out, sequence, runtime::monotonic_now(), deadline});
  if (!runner->thread.joinable()) {
    runner->thread = std::thread([shared = runner] { shared->run(); });
  }
  if (!waits) runner->changed.notify_all();  // Else its thread would find it by its own clock.
  return work;
}

Result<void> Group::State::run_mesh(const MeshJob& job) {
  if (auto reason = context->mesh->aborted(plan.group)) return fail(std::move(*reason));
  mesh::MeshCall call;
  call.group = plan.group;
  call.ranks = plan.ranks;
  call.me = rank;
  call.sequence = job.sequence;
  OperationDescriptor what = job.what;
  what.group = plan.group;
  what.sequence = job.sequence;
  call.digest = wire::digest_of(what);
  call.deadline = job.deadline;
  auto& streams = *context->mesh;
  switch (what.kind) {
    case OperationKind::kAllReduce:
      if (job.algorithm == Algorithm::kHalvingDoubling) {
        return mesh::halving_doubling_all_reduce(streams, call, job.in, job.out, what.count,
                                                 what.type, what.reduction);
      }
      return mesh::ring_all_reduce(streams, call, job.in, job.out, what.count, what.type,
                                   what.reduction);
    case OperationKind::kReduce:
      return mesh::reduce(streams, call, job.in, job.out, what.count, what.type, what.reduction,
                          what.root);
    case OperationKind::kBroadcast:
      return mesh::broadcast(streams, call, job.out, what.count, what.type, what.root);
    case OperationKind::kAllGather:
      return mesh::ring_all_gather(streams, call, job.in, job.out, what.count, what.type);
    case OperationKind::kReduceScatter:
      return mesh::ring_reduce_scatter(streams, call, job.in, job.out, what.count, what.type,
                                       what.reduction);
    case OperationKind::kBarrier:
      return mesh::barrier(streams, call);
    default:
      return fail(ErrorCode::kUnsupported,
                  fmt::format("{} does not do {}", name_of(job.algorithm), name_of(what.kind)));
  }
}

void MeshRunner::run_front(std::unique_lock<std::mutex>& lock) {
  busy = true;
  MeshJob job = std::move(queue.front());
  queue.pop_front();
  lock.unlock();
  Group::State& group = *job.work->group;
  Result<void> outcome = group.run_mesh(job);
  if (!outcome && outcome.error().code == ErrorCode::kTimeout && group.context->client) {
    OperationDescriptor what = job.what;
    what.sequence = job.sequence;
    group.context->client->report_overdue(api::overdue_of(group.plan.group, what, job.posted_at));
  } else if (!outcome && is_finding(outcome.error().code) && group.context->client) {
    // All hear it, but where the group has ended already: that reason stands.
    group.context->client->give_up(group.plan.group, outcome.error());
  }
  conclude(*job.work, std::move(outcome));
  lock.lock();
  busy = false;
  changed.notify_all();
  lock.unlock();
  job.work.reset();  // May be the last of the group.
  lock.lock();
}

bool MeshRunner::drain(const Error& reason, Duration patience) {
  std::deque<MeshJob> dropped;  // Each may hold the last reference to its group.
  bool idle = false;
  {
    std::unique_lock lock(mutex);
    dropped.swap(queue);
    idle = changed.wait_for(lock, patience, [&] { return !busy; });
  }
  for (const MeshJob& job : dropped) conclude(*job.work, fail(reason));
  return idle;
}

void MeshRunner::run() {
  constexpr Duration kGrace = std::chrono::milliseconds(1);
  std::unique_lock lock(mutex);
  while (!stopping) {
    if (queue.empty() || busy) {
      changed.wait_for(lock, std::chrono::milliseconds(50));
      continue;
    }
    // Leave a caller the time to come and wait.
    const uint32_t first = queue.front().sequence;
    changed.wait_for(lock, kGrace);
    if (!busy && !queue.empty() && queue.front().sequence == first) run_front(lock);
  }
}

Result<void> Group::State::wait_mesh(Work::State& work, Instant deadline) {
  {
    std::unique_lock lock(runner->mutex);
    // Run what is queued up to this operation, unless another thread is at it. Once this operation
    // is done the others are not this caller's business: it has its own to do beside them.
    const auto done = [&] {
      std::lock_guard guard(work.mutex);
      return work.outcome.has_value();
    };
    while (!done() && !runner->queue.empty() && !runner->busy) {
      // Who waits until `deadline` waits no longer for what stands before it either.
      MeshJob& front = runner->queue.front();
      front.deadline = std::min(front.deadline, deadline);
      runner->run_front(lock);
    }
  }
  std::unique_lock lock(work.mutex);
  while (!work.outcome) {
    const Instant now = runtime::monotonic_now();
    if (now >= deadline + kAbortPatience) {
      return fail(ErrorCode::kTimeout, "timed out behind an earlier operation of the group");
    }
    work.changed.wait_for(lock, std::chrono::milliseconds(20));
    if (now >= deadline)
      context->mesh->abort(plan.group, {ErrorCode::kTimeout, "the operation timed out"});
  }
  return *work.outcome;
}

}  // namespace sumcast
