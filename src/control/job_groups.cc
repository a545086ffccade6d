// Groups: opened when all members have asked, granted a range of slots, closed by all.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/assert.h"
#include "control/job.h"
#include "control/wording.h"

namespace sumcast::control {

namespace {

constexpr std::string_view kWorldKey = "world";

std::vector<Rank> sorted(std::vector<Rank> ranks) {
  std::ranges::sort(ranks);
  return ranks;
}

/// Ranks in the order given: the order matters when members compare theirs.
std::string order_text(const std::vector<Rank>& ranks) {
  if (std::ranges::is_sorted(ranks)) return ranks_text(ranks);
  std::string text = "ranks ";
  for (size_t i = 0; i < ranks.size(); ++i) {
    text += fmt::format("{}{}", i == 0 ? "" : ", ", ranks[i].value);
  }
  return text + " in this order";
}

}  // namespace

Result<void> Job::check_open(Rank rank, const OpenGroup& open) const {
  const auto wrong = [&](std::string what) {
    return fail(ErrorCode::kInvalidArgument, fmt::format("group \"{}\": {}", open.key, what));
  };
  if (open.key.empty() || open.ranks.empty()) return wrong("no key or no ranks");
  if (open.payload_bytes_max == 0) return wrong("no room for payload");
  const std::vector<Rank> ranks = sorted(open.ranks);
  if (ranks.back().value >= ranks_.size()) {
    return wrong(
        fmt::format("rank {} is outside a world of {}", ranks.back().value, ranks_.size()));
  }
  if (std::ranges::adjacent_find(ranks) != ranks.end()) return wrong("a rank occurs twice");
  if (!std::ranges::binary_search(ranks, rank)) {
    return wrong(fmt::format("rank {} asks for it but is not among its ranks", rank.value));
  }
  for (const Rank member : ranks) {
    if (is_live(member)) continue;
    const bool left = record(member).state == RankState::kLeft;
    return fail(ErrorCode::kAborted, fmt::format("group \"{}\" cannot open: {} has {}", open.key,
                                                 who(member), left ? "left" : "died"));
  }
  if (!open.leaders_of) return {};
  const auto whole = groups_.find(*open.leaders_of);
  if (whole == groups_.end()) return wrong("the group that it connects the hosts of is not open");
  if (whole->second.aborted) return fail(*whole->second.aborted);
  if (!std::ranges::all_of(ranks, [&](Rank one) { return is_member(whole->second, one); })) {
    return wrong("a rank is not in the group that it connects the hosts of");
  }
  return {};
}

void Job::on_open(Rank rank, const OpenGroup& open, Instant now) {
  if (auto sane = check_open(rank, open); !sane) return refuse_open(rank, open.key, sane.error());
  record(rank).alone = open.alone;
  auto found = pending_.find(open.key);
  if (found != pending_.end() && found->second.failure && found->second.asked.contains(rank)) {
    pending_.erase(found);  // It knows of the failure and tries again.
    found = pending_.end();
  }
  if (found == pending_.end()) {
    if (pending_.size() >= config_.pending_max) {
      return refuse_open(
          rank, open.key,
          Error{ErrorCode::kNoSlots, fmt::format("group \"{}\": {} groups already wait to open",
                                                 open.key, pending_.size())});
    }
    found = pending_
                .emplace(open.key, PendingGroup{open.ranks,
                                                {},
                                                open.leaders_of,
                                                now,
                                                now + open.timeout,
                                                now + config_.notice,
                                                {}})
                .first;
  }
  PendingGroup& pending = found->second;
  if (pending.asked.contains(rank)) {
    return refuse_open(
        rank, open.key,
        Error{ErrorCode::kInvalidArgument,
              fmt::format("rank {} already waits for group \"{}\"", rank.value, open.key)});
  }
  if (!pending.failure && pending.ranks != open.ranks) {
    const Rank first = pending.asked.begin()->first;
    fail_pending(open.key, pending,
                 Error{ErrorCode::kMismatch,
                       fmt::format("group \"{}\" does not match: rank {} opens it with {}; rank {} "
                                   "opens it with {}",
                                   open.key, first.value, order_text(pending.ranks), rank.value,
                                   order_text(open.ranks))});
  }
  pending.asked.emplace(rank, PendingGroup::Offer{open.payload_bytes_max, open.slots_wanted});
  if (pending.failure) {
    refuse_open(rank, open.key, *pending.failure);
    const bool all_told = std::ranges::all_of(
        pending.ranks, [&](Rank member) { return pending.asked.contains(member); });
    if (all_told) pending_.erase(found);
  } else if (pending.asked.size() == pending.ranks.size()) {
    open_group(open.key, pending);
    pending_.erase(found);
  } else {
    pending.deadline = std::min(pending.deadline, now + open.timeout);
  }
}

void Job::refuse_open(Rank rank, const std::string& key, const Error& error) {
  ++counters_.groups_refused;
  tell(rank, Refused{key, error.code, error.what});
}

/// Tells all who have asked so far. The entry stays, for members who ask later.
void Job::fail_pending(const std::string& key, PendingGroup& pending, Error error) {
  for (const auto& [rank, offer] : pending.asked) refuse_open(rank, key, error);
  pending.failure = std::move(error);
}

void Job::expire_pending(Instant now) {
  for (auto it = pending_.begin(); it != pending_.end();) {
    auto& [key, pending] = *it;
    if (now < pending.deadline) {
      ++it;
      continue;
    }
    if (!pending.failure) {
      std::vector<Rank> missing;
      for (const Rank rank : sorted(pending.ranks)) {
        if (!pending.asked.contains(rank)) missing.push_back(rank);
      }
      fail_pending(key, pending,
                   Error{ErrorCode::kTimeout,
                         fmt::format("waiting for {} of {} ranks: {} never opened group \"{}\" "
                                     "(waited {})",
                                     missing.size(), pending.ranks.size(), ranks_text(missing), key,
                                     span_text(now - pending.begun))});
    }
    it = pending_.erase(it);
  }
}

/// Groups that wait for somebody in `gone` will never open.
void Job::drop_pending_of(const std::vector<Rank>& gone, const std::string& text) {
  for (auto it = pending_.begin(); it != pending_.end();) {
    auto& [key, pending] = *it;
    const bool concerned = std::ranges::any_of(
        pending.ranks, [&](Rank rank) { return std::ranges::find(gone, rank) != gone.end(); });
    if (!concerned) {
      ++it;
      continue;
    }
    if (!pending.failure) {
      fail_pending(
          key, pending,
          Error{ErrorCode::kAborted, fmt::format("group \"{}\" cannot open: {}", key, text)});
    }
    it = pending_.erase(it);
  }
}

void Job::open_group(const std::string& key, const PendingGroup& pending) {
  uint32_t payload = UINT32_MAX;
  uint32_t wanted = UINT32_MAX;
  for (const auto& [rank, offer] : pending.asked) {
    payload = std::min(payload, offer.payload_bytes);
    wanted = std::min(wanted, offer.slots);
  }
  std::vector<uint32_t> hosts = hosts_of(pending.ranks);
  // Where hosts have several ranks, datagrams travel in a group of one rank per host.
  // But for those in which rows travel rank by rank (api/row_sum.cc): they know no hosts.
  const bool shares =
      !key.starts_with("rows of ") && *std::ranges::max_element(hosts) + 1 < hosts.size();
  const auto slots = slots_.take(shares ? 1 : wanted);
  if (!slots) {
    const Error error{ErrorCode::kNoSlots,
                      fmt::format("group \"{}\": all {} slots of job \"{}\" are taken by {} open "
                                  "groups; close some, or give the aggregator more slots",
                                  key, slots_.size(), name_, groups_.size())};
    for (const auto& [rank, offer] : pending.asked) refuse_open(rank, key, error);
    return;
  }
  const GroupId id = next_group_id(key);
  const GroupPlan plan{incarnation_,
                       id,
                       key,
                       pending.ranks,
                       SlotIndex(static_cast<uint16_t>(slots->base)),
                       slots->count,
                       payload,
                       std::move(hosts)};
  groups_.emplace(id, Group{plan, *slots, pending.leaders_of, {}, {}, {}, 0, {}});
  ++counters_.groups_opened;
  sink_.group_opened(plan);
  tell(plan.ranks,
       GroupOpened{key, id, plan.ranks, plan.slot_base, plan.slot_count, payload, plan.hosts});
}

/// Who of `ranks` shares a host with whom, as all of them will see it: if one rank of a host cannot
/// share memory, each of its ranks is a host of its own; and so is every rank if the hosts are too
/// many and too unequal (kPlacesMax).
std::vector<uint32_t> Job::hosts_of(const std::vector<Rank>& ranks) const {
  std::set<std::string> split;
  for (const Rank rank : ranks) {
    if (!record(rank).alone.empty()) split.insert(record(rank).member.host);
  }
  std::map<std::string, uint32_t> known;
  std::vector<uint32_t> hosts;
  uint32_t count = 0;
  for (const Rank rank : ranks) {
    const std::string& name = record(rank).member.host;
    if (split.contains(name) || name.empty()) {
      hosts.push_back(count++);
      continue;
    }
    const auto [place, is_new] = known.emplace(name, count);
    if (is_new) ++count;
    hosts.push_back(place->second);
  }
  std::vector<uint64_t> seats(count, 0);
  for (const uint32_t host : hosts) ++seats[host];
  if (count > 1 && count * *std::ranges::max_element(seats) > kPlacesMax) {
    std::iota(hosts.begin(), hosts.end(), 0u);
  }
  return hosts;
}

/// 0 for the world. Others take turns through 1..65535, so that an id rests as long as possible
/// before it comes again. There is always one: each group owns a slot, and slots are fewer.
GroupId Job::next_group_id(const std::string& key) {
  if (key == kWorldKey && !groups_.contains(GroupId(0))) return GroupId(0);
  do {
    last_group_ = GroupId(static_cast<uint16_t>(last_group_.value + 1));
  } while (last_group_.value == 0 || groups_.contains(last_group_));
  return last_group_;
}

void Job::on_close(Rank rank, GroupId id) {
  Group* group = find_group(id, rank);
  if (group == nullptr) return;
  group->closed.insert(rank);
  for (auto& [key, pending] : pending_) {
    // The leaders of its hosts need not wait for one that has given up already.
    if (pending.leaders_of != id || pending.failure) continue;
    fail_pending(key, pending,
                 Error{ErrorCode::kAborted, fmt::format("group \"{}\" cannot open: {} closed group "
                                                        "\"{}\" before all had opened it",
                                                        key, who(rank), group->plan.key)});
  }
  release_if_closed(id);
}

/// Frees what the group owns once nobody uses it: all members have closed it or are gone.
void Job::release_if_closed(GroupId id) {
  const auto found = groups_.find(id);
  SUMCAST_ASSERT(found != groups_.end());
  const Group& group = found->second;
  const bool used = std::ranges::any_of(
      group.plan.ranks, [&](Rank rank) { return is_live(rank) && !group.closed.contains(rank); });
  if (used) return;
  for (const Rank rank : group.plan.ranks) record(rank).activities.erase(id);
  slots_.give_back(group.slots);
  sink_.group_closed(incarnation_, id);
  groups_.erase(found);
}

}  // namespace sumcast::control
