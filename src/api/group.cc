// Groups: what callers may ask for is checked here, then goes to the engine or to the mesh
// (group_mesh.cc).
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "api/context_state.h"
#include "api/overdue.h"
#include "numeric/codec.h"
#include "runtime/clock.h"

namespace sumcast {
namespace {

using wire::OperationDescriptor;
using wire::OperationKind;

Result<void> check(const OperationDescriptor& what, uint32_t size) {
  const bool combines = what.reduction != Reduction::kCopy;
  if (combines && !reduction_applies(what.type, what.reduction)) {
    std::string types;
    for (int t = 0; t < kElementTypes; ++t) {
      const auto type = static_cast<ElementType>(t);
      if (reduction_applies(type, what.reduction)) types += fmt::format(" {}", name_of(type));
    }
    return fail(ErrorCode::kUnsupported,
                fmt::format("{} does not exist for {}; it does for:{}", name_of(what.reduction),
                            name_of(what.type), types));
  }
  if (what.format != WireFormat::kNative &&
      (!combines || !numeric::wire_format_applies(what.type, what.reduction, what.format))) {
    return fail(
        ErrorCode::kUnsupported,
        fmt::format("wire format {} does not carry {} {} {}; it carries f32 with sum and avg "
                    "(bf16 and fp16 also min, max, product)",
                    name_of(what.format), wire::name_of(what.kind), name_of(what.type),
                    name_of(what.reduction)));
  }
  if (what.root >= size) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("root {} is not in a group of {}", what.root, size));
  }
  if (what.count > (uint64_t{1} << 50)) {
    return fail(ErrorCode::kInvalidArgument, fmt::format("{} elements are too many", what.count));
  }
  return {};
}

bool uses_mesh(Algorithm algorithm) {
  return algorithm == Algorithm::kRing || algorithm == Algorithm::kHalvingDoubling;
}

}  // namespace

Group::State::~State() {
  {
    std::lock_guard lock(runner->mutex);
    runner->stopping = true;
    runner->changed.notify_all();
  }
  if (runner->thread.get_id() == std::this_thread::get_id()) {
    runner->thread.detach();  // It holds the runner, and ends as soon as it sees `stopping`.
  } else if (runner->thread.joinable()) {
    runner->thread.join();
  }
  {
    const std::lock_guard lock(context->teams_mutex);
    std::erase_if(context->row_groups, [&](const auto& two) { return two.first == plan.group; });
  }
  apart.reset();
  context->note_closing(plan.group);
  if (team) context->close_team(team);
  if (context->client) context->client->close_group(plan.group);
  context->engine->close_group(plan.group);
  context->messenger->close_group(plan.group);
  context->mesh->close_group(plan.group);
}

uint32_t Group::rank() const { return state_->rank; }
uint32_t Group::size() const { return static_cast<uint32_t>(state_->plan.ranks.size()); }

/// The format of a call that names none: what the context was made with, where that applies.
WireFormat Group::State::default_format(const OperationDescriptor& what) const {
  const bool adds = what.reduction == Reduction::kSum || what.reduction == Reduction::kAvg;
  const WireFormat wanted = context->options.wire;
  return adds && numeric::wire_format_applies(what.type, what.reduction, wanted)
             ? wanted
             : WireFormat::kNative;
}

/// @param waits  the caller waits for it at once.
Result<Work> Group::State::submit(const std::shared_ptr<State>& self, OperationDescriptor what,
                                  const void* in, void* out, const Call& call, bool waits,
                                  const collective::RowLists& rows) {
  using collective::Route;
  what.format = call.wire;
  const auto size = static_cast<uint32_t>(plan.ranks.size());
  if (auto r = check(what, size); !r) return fail(r.error());
  const Instant deadline =
      runtime::monotonic_now() + bounded(call.timeout.value_or(context->options.timeout));
  Algorithm algorithm =
      call.algorithm == Algorithm::kAuto ? context->options.algorithm : call.algorithm;
  const bool has_aggregator = context->engine->has_route(Route::kAggregator);
  const bool has_direct = context->engine->has_route(Route::kDirect);
  if (algorithm == Algorithm::kAuto) {
    const uint64_t lanes = what.count * std::max<uint64_t>(what.width, 1);
    const uint64_t bytes = lanes * element_bytes(what.type);
    const bool aggregator =
        has_aggregator && (!has_direct || context->costs.prefers_aggregator(bytes));
    algorithm = aggregator ? Algorithm::kInNetwork : Algorithm::kDirect;
  }
  if (uses_mesh(algorithm)) return submit_mesh(self, algorithm, what, in, out, deadline, waits);
  // Rows travel as the call says: whoever holds other rows of the same table must know.
  if (what.format == WireFormat::kNative && !wire::sums_rows(what.kind)) {
    what.format = default_format(what);
  }
  const bool direct = algorithm == Algorithm::kDirect;
  if (direct ? !has_direct : !has_aggregator) {
    return fail(ErrorCode::kUnsupported,
                direct ? "direct paths were not set up: this job joined for " +
                             std::string(name_of(context->options.algorithm)) + " only"
                       : std::string("no aggregator: give one (SUMCAST_AGGREGATOR=host:port)"));
  }
  const Route route = direct ? Route::kDirect : Route::kAggregator;
  Work work;
  work.state_ = std::make_shared<Work::State>();
  work.state_->group = self;
  work.state_->deadline = deadline;
  if (team) {
    auto posted = team->submit(what, route, in, out, deadline, waits);
    if (!posted) return fail(posted.error());
    work.state_->host = std::move(*posted);
    return work;
  }
  auto operation = context->engine->submit(plan.group, route, what, in, out, rows, deadline);
  if (!operation) return fail(operation.error());
  work.state_->operation = std::move(*operation);
  return work;
}

namespace {

OperationDescriptor describe(OperationKind kind, uint64_t count, ElementType type,
                             Reduction reduction, uint32_t root = 0) {
  OperationDescriptor what;
  what.kind = kind;
  what.type = type;
  what.reduction = reduction;
  what.count = count;
  what.root = static_cast<uint16_t>(std::min<uint32_t>(root, UINT16_MAX));
  return what;
}

OperationDescriptor describe_barrier() {
  OperationDescriptor what;
  what.kind = OperationKind::kBarrier;
  what.reduction = Reduction::kCopy;
  return what;
}

}  // namespace

Result<Work> Group::all_reduce_async(const void* in, void* out, uint64_t count, ElementType type,
                                     Reduction reduction, const Call& call) {
  const auto what = describe(OperationKind::kAllReduce, count, type, reduction);
  return state_->submit(state_, what, in, out, call);
}
Result<Work> Group::reduce_async(const void* in, void* out, uint64_t count, ElementType type,
                                 Reduction reduction, uint32_t root, const Call& call) {
  const auto what = describe(OperationKind::kReduce, count, type, reduction, root);
  return state_->submit(state_, what, in, out, call);
}
Result<Work> Group::broadcast_async(void* data, uint64_t count, ElementType type, uint32_t root,
                                    const Call& call) {
  const auto what = describe(OperationKind::kBroadcast, count, type, Reduction::kCopy, root);
  return state_->submit(state_, what, data, data, call);
}
Result<Work> Group::all_gather_async(const void* in, void* out, uint64_t count, ElementType type,
                                     const Call& call) {
  const auto what = describe(OperationKind::kAllGather, count, type, Reduction::kCopy);
  return state_->submit(state_, what, in, out, call);
}
Result<Work> Group::reduce_scatter_async(const void* in, void* out, uint64_t count,
                                         ElementType type, Reduction reduction, const Call& call) {
  const auto what = describe(OperationKind::kReduceScatter, count, type, reduction);
  return state_->submit(state_, what, in, out, call);
}
Result<Work> Group::barrier_async(const Call& call) {
  return state_->submit(state_, describe_barrier(), nullptr, nullptr, call);
}

Result<void> Group::State::perform(const std::shared_ptr<State>& self,
                                   const OperationDescriptor& what, const void* in, void* out,
                                   const Call& call) {
  auto work = submit(self, what, in, out, call, true);
  if (!work) return fail(work.error());
  return work->wait();
}

Result<void> Group::all_reduce(const void* in, void* out, uint64_t count, ElementType type,
                               Reduction reduction, const Call& call) {
  const auto what = describe(OperationKind::kAllReduce, count, type, reduction);
  return state_->perform(state_, what, in, out, call);
}
Result<void> Group::reduce(const void* in, void* out, uint64_t count, ElementType type,
                           Reduction reduction, uint32_t root, const Call& call) {
  const auto what = describe(OperationKind::kReduce, count, type, reduction, root);
  return state_->perform(state_, what, in, out, call);
}
Result<void> Group::broadcast(void* data, uint64_t count, ElementType type, uint32_t root,
                              const Call& call) {
  const auto what = describe(OperationKind::kBroadcast, count, type, Reduction::kCopy, root);
  return state_->perform(state_, what, data, data, call);
}
Result<void> Group::all_gather(const void* in, void* out, uint64_t count, ElementType type,
                               const Call& call) {
  const auto what = describe(OperationKind::kAllGather, count, type, Reduction::kCopy);
  return state_->perform(state_, what, in, out, call);
}
Result<void> Group::reduce_scatter(const void* in, void* out, uint64_t count, ElementType type,
                                   Reduction reduction, const Call& call) {
  const auto what = describe(OperationKind::kReduceScatter, count, type, reduction);
  return state_->perform(state_, what, in, out, call);
}
Result<void> Group::barrier(const Call& call) {
  return state_->perform(state_, describe_barrier(), nullptr, nullptr, call);
}

Work::Work() = default;
Work::Work(Work&&) noexcept = default;
Work& Work::operator=(Work&&) noexcept = default;
Work::~Work() = default;

bool Work::is_done() const {
  if (state_->operation) return state_->operation->done.load(std::memory_order_acquire);
  if (state_->host) return state_->host->done.load(std::memory_order_acquire);
  if (state_->exchange) return state_->exchange->done.load(std::memory_order_acquire);
  std::lock_guard lock(state_->mutex);
  return state_->outcome.has_value();
}

Result<void> Work::wait(std::optional<std::chrono::nanoseconds> timeout) {
  Group::State& group = *state_->group;
  Instant deadline = state_->deadline;
  const Instant begun = runtime::monotonic_now();
  if (timeout) deadline = std::min(deadline, begun + bounded(*timeout));
  if (state_->host) return group.team->wait(state_->host, deadline);
  if (state_->exchange) return group.wait_exchange(*state_, deadline);
  if (!state_->operation) return group.wait_mesh(*state_, deadline);

  collective::Engine& engine = *group.context->engine;
  const collective::Operation& operation = *state_->operation;
  if (!engine.wait(operation, deadline)) {
    // P10: whoever is missing, the coordinator knows, and tells all ranks the same.
    const control::Overdue overdue =
        api::overdue_of(group.plan.group, operation.descriptor, operation.posted_at);
    group.context->client->report_overdue(overdue);
    if (!engine.wait(operation, runtime::monotonic_now() + kAbortPatience)) {
      engine.abort(group.plan.group,
                   Error{ErrorCode::kTimeout,
                         fmt::format("{} #{} timed out, and the coordinator does not answer",
                                     overdue.operation, overdue.sequence)});
      (void)engine.wait(operation, runtime::monotonic_now() + kAbortPatience);
    }
  }
  if (operation.error) return fail(*operation.error);
  return {};
}

}  // namespace sumcast
