// Messages of a group, and the end of a group by its user.
#include <fmt/format.h>

#include <algorithm>

#include "api/context_state.h"
#include "runtime/clock.h"
#include "runtime/log.h"

namespace sumcast {

uint32_t Group::State::place_of(Rank member) const {
  return static_cast<uint32_t>(std::ranges::find(plan.ranks, member) - plan.ranks.begin());
}

Result<Work> Group::exchange_async(std::span<const Message> sends,
                                   std::span<const Message> receives, const Call& call,
                                   std::function<void()> on_done) {
  const std::vector<Rank>& ranks = state_->plan.ranks;
  std::vector<mesh::Sending> out;
  std::vector<mesh::Receiving> in;
  for (const Message& one : sends) {
    if (one.peer >= ranks.size() || one.peer == state_->rank) {
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("place {} of a group of {} sends to place {}: name another place",
                              state_->rank, ranks.size(), one.peer));
    }
    out.push_back(
        {ranks[one.peer], static_cast<const std::byte*>(one.data), one.bytes, one.tag, one.check});
  }
  for (const Message& one : receives) {
    const bool any = one.peer == kAnyRank;
    if (!any && (one.peer >= ranks.size() || one.peer == state_->rank)) {
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("place {} of a group of {} receives from place {}: name another "
                              "place, or any",
                              state_->rank, ranks.size(), one.peer));
    }
    in.push_back({any ? std::nullopt : std::optional(ranks[one.peer]),
                  static_cast<std::byte*>(one.data), one.bytes, one.tag, one.check});
  }
  Work work;
  work.state_ = std::make_shared<Work::State>();
  work.state_->group = state_;
  work.state_->deadline =
      runtime::monotonic_now() + bounded(call.timeout.value_or(state_->context->options.timeout));
  auto posted = state_->context->messenger->post(state_->plan.group, out, in, work.state_->deadline,
                                                 std::move(on_done));
  if (!posted) return fail(posted.error());
  work.state_->exchange = std::move(*posted);
  return work;
}

Result<void> Group::exchange(std::span<const Message> sends, std::span<const Message> receives,
                             const Call& call) {
  auto work = exchange_async(sends, receives, call);
  if (!work) return fail(work.error());
  return work->wait();
}

void Group::bound_inflow(uint64_t bytes) {
  state_->context->messenger->bound_inflow(state_->plan.group, bytes);
}

uint64_t Group::note_call(uint32_t number, std::string_view text) {
  return state_->context->messenger->note_call(state_->plan.group, number, text);
}

Result<void> Group::State::wait_exchange(Work::State& work, Instant deadline) {
  return context->messenger->wait(*work.exchange, deadline);
}

uint32_t Work::source() const {
  if (!state_->exchange || !is_done() || !state_->exchange->source) return kAnyRank;
  return state_->group->place_of(*state_->exchange->source);
}

void Group::abort(const std::string& reason) {
  const Error error{ErrorCode::kAborted, reason};
  const GroupId group = state_->plan.group;
  // The coordinator puts the same in front. Neighbours may hear it through shared memory first.
  state_->context->end_group(
      group, error.within(fmt::format("rank {} ended group {}", state_->context->options.rank,
                                      group.value)));
  if (state_->team) state_->team->drain();
  if (!state_->runner->drain(error, kAbortPatience)) {
    runtime::log_warn(runtime::Subsystem::kColl,
                      "group {}: an operation of a baseline still runs two seconds after the abort;"
                      " leave its tensors alone until it was waited for",
                      group.value);
  }
  if (state_->context->client) state_->context->client->give_up(group, error);
}

std::optional<Error> Group::aborted() const {
  return state_->context->mesh->aborted(state_->plan.group);
}

}  // namespace sumcast
