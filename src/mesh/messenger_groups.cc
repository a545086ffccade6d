// Groups that open and end, and the streams that peers open for them.
#include <fmt/format.h>

#include <algorithm>

#include "mesh/messenger.h"
#include "net/descriptor.h"
#include "net/tcp.h"

namespace sumcast::mesh {
namespace {

constexpr Duration kDrainPatience = 2s;

}  // namespace

void Messenger::open_group(GroupId id) {
  std::lock_guard lock(mutex_);
  closed_.erase(id);
  groups_[id].early_since.reset();
}

void Messenger::bound_inflow(GroupId id, size_t bytes) {
  std::lock_guard lock(mutex_);
  const auto found = groups_.find(id);
  if (found == groups_.end()) return;
  found->second.inflow_bytes = bytes;
  for (const auto& [peer, channel] : found->second.inlets) net::bound_inflow(channel->fd(), bytes);
}

bool Messenger::wants(GroupId id, Rank peer) const {
  std::lock_guard lock(mutex_);
  return is_wanted(id, peer);
}

bool Messenger::is_wanted(GroupId id, Rank peer) const {
  if (stopping_ || all_aborted_ || closed_.contains(id)) return false;
  const auto found = groups_.find(id);
  if (found != groups_.end() && !found->second.early_since) return !found->second.aborted;
  // One of these peers is known, or a place is left.
  size_t early = 0;
  for (const auto& [other, group] : groups_) {
    if (group.early_since) early += std::max<size_t>(1, group.inlets.size());
  }
  return early < kEarlyStreamsMax ||
         (found != groups_.end() && found->second.inlets.contains(peer));
}

/// A peer opened a stream. Groups need not be known here yet: it may be ahead.
void Messenger::admit(GroupId id, Rank peer, std::shared_ptr<Stream> stream) {
  std::lock_guard lock(mutex_);
  if (!is_wanted(id, peer)) return;
  const auto [entry, is_new] = groups_.try_emplace(id);
  Group& group = entry->second;
  if (is_new) group.early_since = net::monotonic_now();
  if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  ChannelPtr& place = group.inlets[peer];
  if (place) place->shut();  // The peer gave the first one up.
  place = add_channel(id, peer, false, std::move(stream));
  if (group.inflow_bytes) net::bound_inflow(place->fd(), *group.inflow_bytes);
}

/// Ends what waits for groups that this rank has not opened, and what is remembered of old ones.
void Messenger::forget_early(Instant now) {
  if (now < forget_at_) return;
  forget_at_ = now + kEarlyPatience / 30;
  std::erase_if(closed_, [&](const auto& entry) { return now - entry.second >= kEarlyPatience; });
  for (auto at = groups_.begin(); at != groups_.end();) {
    const auto since = at->second.early_since;
    const bool is_old = since && now - *since >= kEarlyPatience;
    if (is_old) drop_channels(at->second);
    at = is_old ? groups_.erase(at) : std::next(at);
  }
}

/// Ends a group by our own finding.
void Messenger::fail_group(GroupId id, const Error& reason) {
  const auto found = groups_.find(id);
  if (found == groups_.end() || found->second.aborted) return;
  abort_locked(id, reason);
  failures_.push_back({id, reason});
}

void Messenger::abort_locked(GroupId id, const Error& reason) {
  const auto found = groups_.find(id);
  if (found == groups_.end() || found->second.aborted) return;
  Group& group = found->second;
  drop_channels(group);
  if (group.early_since) {
    // Whoever opens it learns of the abort from the coordinator.
    groups_.erase(found);
    return;
  }
  group.aborted = reason;
  group.board.clear();
  group.ready.clear();
  group.outlets.clear();
  std::vector<ExchangePtr> ended;
  for (const auto& [deadline, exchange] : exchanges_) {
    if (exchange->group == id) ended.push_back(exchange);
  }
  for (const ExchangePtr& exchange : ended) finish(exchange, reason);
}

void Messenger::drop_channels(Group& group) {
  for (auto& [rank, channel] : group.inlets) channel->shut();
  group.inlets.clear();
  for (auto& [rank, outlet] : group.outlets) {
    if (outlet.channel) outlet.channel->shut();
  }
  wake_.signal();
  drained_.notify_all();
}

void Messenger::abort(GroupId group, const Error& reason) {
  Lock lock(mutex_);
  abort_locked(group, reason);
  unlock_and_tell(lock);
}

void Messenger::abort_all(const Error& reason) {
  Lock lock(mutex_);
  if (!all_aborted_) all_aborted_ = reason;
  std::vector<GroupId> ids;
  for (const auto& [id, group] : groups_) ids.push_back(id);
  for (const GroupId id : ids) abort_locked(id, reason);
  unlock_and_tell(lock);
}

/// Ends what this rank sends in the group, and appends the channels that are to be read on.
void Messenger::linger(Group& group, std::vector<ChannelPtr>& last) {
  for (auto& [peer, outlet] : group.outlets) {
    if (!outlet.channel || outlet.channel->is_shut()) continue;
    outlet.channel->linger();
    last.push_back(std::exchange(outlet.channel, nullptr));
  }
}

void Messenger::close_group(GroupId id) {
  Lock lock(mutex_);
  const auto found = groups_.find(id);
  if (found == groups_.end() || found->second.early_since) return;
  const auto busy = [](const auto& entry) {
    const Outlet& outlet = entry.second;
    return !outlet.waiting.empty() || (outlet.channel && outlet.channel->has_queued());
  };
  const std::chrono::steady_clock::time_point until{
      std::chrono::nanoseconds((net::monotonic_now() + kDrainPatience).ns)};
  drained_.wait_until(lock, until,
                      [&] { return std::ranges::none_of(found->second.outlets, busy); });
  std::vector<ChannelPtr> last;
  linger(found->second, last);
  abort_locked(id, {ErrorCode::kAborted, "the group was closed"});
  drained_.wait_until(lock, until, [&] {
    return std::ranges::all_of(last, [](const ChannelPtr& channel) { return channel->is_shut(); });
  });
  for (const ChannelPtr& channel : last) channel->shut();
  wake_.signal();
  groups_.erase(found);
  closed_[id] = net::monotonic_now();
  forget_early(closed_[id]);
  unlock_and_tell(lock);
}

}  // namespace sumcast::mesh
