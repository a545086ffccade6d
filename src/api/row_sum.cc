// Sums of rows: what a caller may ask for is checked here, then goes the way of all operations.
#include <fmt/format.h>

#include <algorithm>

#include "api/context_state.h"
#include "numeric/rows.h"

namespace sumcast {
namespace {

/// @param algorithm  the call's, or the context's if it names none.
Result<void> check(const RowSum& table, const Call& call, Algorithm algorithm, uint32_t size,
                   size_t lanes_bytes_max) {
  const auto refuse = [](ErrorCode code, std::string text) { return fail(code, std::move(text)); };
  if (algorithm == Algorithm::kRing || algorithm == Algorithm::kHalvingDoubling) {
    return refuse(
        ErrorCode::kUnsupported,
        fmt::format("{} does not sum rows; in-network, server and direct do", name_of(algorithm)));
  }
  if (!numeric::carries_rows(call.wire)) {
    return refuse(ErrorCode::kUnsupported,
                  fmt::format("wire format {} does not carry rows; native, bf16, fp16 and int8 do",
                              name_of(call.wire)));
  }
  if (table.reduction != Reduction::kSum && table.reduction != Reduction::kAvg) {
    return refuse(ErrorCode::kUnsupported,
                  fmt::format("rows are combined by sum or avg, not {}", name_of(table.reduction)));
  }
  if (table.width == 0 || numeric::slots_per_cell(call.wire, table.width, lanes_bytes_max) == 0) {
    return refuse(ErrorCode::kInvalidArgument,
                  fmt::format("rows of {} lanes do not fit a datagram of {} bytes: cut them into "
                              "pieces, each a row of its own",
                              table.width, lanes_bytes_max));
  }
  if (table.root && *table.root >= size) {
    return refuse(ErrorCode::kInvalidArgument,
                  fmt::format("root {} is not in a group of {}", *table.root, size));
  }
  const auto& touched = table.touched;
  const auto wrong =
      std::ranges::adjacent_find(touched, [](uint32_t a, uint32_t b) { return a >= b; });
  if (wrong != touched.end()) {
    return refuse(ErrorCode::kInvalidArgument,
                  fmt::format("touched rows must ascend: {} stands before {}", wrong[0], wrong[1]));
  }
  if (!touched.empty() && touched.back() >= table.slots) {
    return refuse(ErrorCode::kInvalidArgument,
                  fmt::format("row {} is not in a table of {} rows", touched.back(), table.slots));
  }
  return {};
}

}  // namespace

/// Rows are folded rank by rank, whoever shares a host, as servers fold them (ADR 12): by the same
/// ranks in a group that knows no hosts. Opened by the first sum of rows, which all ranks call; the
/// two groups have one fate.
Result<std::shared_ptr<Group::State>> Group::State::open_apart() {
  const std::lock_guard lock(apart_mutex);
  const auto ended = context->mesh->aborted(plan.group);
  if (ended) return fail(*ended);
  if (apart) return apart;
  std::vector<uint32_t> ranks;
  for (const Rank one : plan.ranks) ranks.push_back(one.value);
  const std::string key = fmt::format("rows of {} {}", plan.group.value, plan.key);
  auto opened = context->open_group(key, ranks, context, plan.group);
  if (!opened) return fail(opened.error());
  {
    const std::lock_guard teams_lock(context->teams_mutex);
    context->row_groups.emplace_back(plan.group, opened->state_->plan.group);
  }
  // Either may have ended before the two were known to belong together.
  for (const GroupId group : {plan.group, opened->state_->plan.group}) {
    const auto late = context->mesh->aborted(group);
    if (!late) continue;
    context->end_group(group, *late);
    return fail(*late);
  }
  apart = opened->state_;
  return apart;
}

Result<Work> Group::State::submit_rows(const std::shared_ptr<State>& self, const RowSum& table,
                                       const Call& call, bool waits) {
  const auto size = static_cast<uint32_t>(plan.ranks.size());
  const size_t lanes_bytes_max = plan.payload_bytes - wire::kHeaderBytes - wire::kTagBytes;
  const Algorithm algorithm =
      call.algorithm == Algorithm::kAuto ? context->options.algorithm : call.algorithm;
  if (auto fine = check(table, call, algorithm, size, lanes_bytes_max); !fine) {
    return fail(fine.error());
  }
  if (team) {
    auto ranks_apart = open_apart();
    if (!ranks_apart) return fail(ranks_apart.error());
    return (*ranks_apart)->submit_rows(*ranks_apart, table, call, waits);
  }
  wire::OperationDescriptor what;
  what.kind = table.root ? wire::OperationKind::kRowReduce : wire::OperationKind::kRowSum;
  what.type = ElementType::kF32;
  what.reduction = table.reduction;
  what.count = table.slots;
  what.width = table.width;
  what.root = static_cast<uint16_t>(table.root.value_or(0));
  return submit(self, what, table.rows, table.sums, call, waits,
                {.slots = table.touched, .touched = table.present});
}

Result<Work> Group::sum_rows_async(const RowSum& table, const Call& call) {
  return state_->submit_rows(state_, table, call, false);
}

Result<void> Group::sum_rows(const RowSum& table, const Call& call) {
  auto work = state_->submit_rows(state_, table, call, true);
  if (!work) return fail(work.error());
  return work->wait();
}

}  // namespace sumcast
