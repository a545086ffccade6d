// Late and mismatching operations: all members are asked, then all are told the same.
//
// An overdue rank knows only that it waits; an aggregator shard knows only two digests. The answer
// that a person needs (who has not come, who calls what) is spread over the members, so each case
// opens an inquiry of at most `inquiry` (200 ms): ask, gather, conclude. A mismatch takes two
// questions: the two ranks that were caught say which operation their digest means, then the
// others say what they have under that operation's number.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "control/job.h"
#include "control/wording.h"

namespace sumcast::control {

namespace {

/// So many ranks are described one by one; of the rest only the numbers are given.
constexpr size_t kRanksDescribed = 16;

}  // namespace

void Job::on_overdue(Rank rank, const Overdue& overdue, Instant now) {
  Group* group = find_group(overdue.group, rank);
  if (group == nullptr || group->aborted || group->inquiry || overdue.sequence == 0) return;
  const std::vector<Rank> members = live_members(*group);
  Inquiry inquiry{++last_request_, now + config_.inquiry, {}, overdue, {}, {}};
  inquiry.silent.insert(members.begin(), members.end());
  group->inquiry = std::move(inquiry);
  tell(members, ReportNow{last_request_});
}

void Job::on_give_up(Rank rank, const GiveUp& give_up) {
  Group* group = find_group(give_up.group, rank);
  if (group == nullptr || group->aborted) return;
  abort_group(*group,
              Error{give_up.code, fmt::format("rank {} ended group {}: {}", rank.value,
                                              give_up.group.value, give_up.text)},
              {rank});
}

void Job::on_mismatch(const Mismatch& reported, Instant now) {
  Mismatch mismatch = reported;
  Group* group = find_group(mismatch.group, mismatch.rank_a);
  if (group != nullptr && group->leaders_of) {
    // Pieces of different operations met: what people know is the operations.
    mismatch.group = *group->leaders_of;
    group = find_group(mismatch.group, mismatch.rank_a);
  }
  if (group == nullptr || !is_member(*group, mismatch.rank_b) || group->aborted ||
      mismatch.rank_a == mismatch.rank_b) {
    return;
  }
  if (group->inquiry && group->inquiry->mismatch) return;
  // An inquiry into lateness gives way: the mismatch is the reason.
  const std::vector<Rank> members = live_members(*group);
  Inquiry inquiry{++last_request_, now + config_.inquiry, {}, {}, mismatch, {}};
  inquiry.silent.insert(members.begin(), members.end());
  group->inquiry = std::move(inquiry);
  tell(mismatch.rank_a, Describe{mismatch.group, last_request_, 0, mismatch.digest_a});
  tell(mismatch.rank_b, Describe{mismatch.group, last_request_, 0, mismatch.digest_b});
}

void Job::on_description(Rank rank, const Description& description, Instant now) {
  Group* group = find_group(description.group, rank);
  if (group == nullptr || !group->inquiry || !group->inquiry->mismatch) return;
  Inquiry& inquiry = *group->inquiry;
  if (description.request != inquiry.request || !inquiry.silent.contains(rank)) return;
  const bool number_known = std::ranges::any_of(
      inquiry.answers, [](const auto& entry) { return entry.second.sequence != 0; });
  inquiry.answers.emplace(rank, description);
  if (!number_known && description.sequence != 0) {
    for (const Rank other : live_members(*group)) {
      if (other == inquiry.mismatch->rank_a || other == inquiry.mismatch->rank_b) continue;
      tell(other, Describe{description.group, inquiry.request, description.sequence, 0});
    }
  }
  note_answer(*group, rank, now);
}

/// Notes that `rank` has answered; the last answer concludes the inquiry.
void Job::note_answer(Group& group, Rank rank, Instant now) {
  group.inquiry->silent.erase(rank);
  if (group.inquiry->silent.empty()) conclude(group, now);
}

void Job::conclude(Group& group, Instant now) {
  const Inquiry inquiry = std::move(*group.inquiry);
  group.inquiry.reset();
  if (inquiry.mismatch) return conclude_mismatch(group, inquiry);
  conclude_overdue(group, inquiry, now);
}

void Job::conclude_overdue(Group& group, const Inquiry& inquiry, Instant now) {
  const Overdue& overdue = *inquiry.overdue;
  const std::vector<Rank>& members = group.plan.ranks;
  std::vector<Rank> missing;
  for (const Rank rank : members) {
    if (posted(rank, overdue.group) < overdue.sequence) missing.push_back(rank);
  }
  std::ranges::sort(missing);
  std::string text = fmt::format("{}: timed out after {}; ",
                                 operation_text(overdue.operation, overdue.sequence, overdue.group),
                                 span_text(overdue.waited));
  if (missing.empty() && !inquiry.silent.empty()) {
    // Posted, then stopped or cut off: whoever does not even answer is whom the others wait for.
    missing.assign(inquiry.silent.begin(), inquiry.silent.end());
    text += fmt::format("all ranks have posted it, but {} did not answer when asked",
                        ranks_text(missing));
  } else if (missing.empty()) {
    text += "all ranks have posted it; the network or the aggregator lost it";
  } else {
    text += "waiting for " + missing_text(group, missing, now);
  }
  abort_group(group, Error{ErrorCode::kTimeout, std::move(text)}, std::move(missing));
}

/// "2 of 8 ranks: rank 3 (no operation yet), rank 5 (...)".
std::string Job::missing_text(const Group& group, const std::vector<Rank>& missing,
                              Instant now) const {
  std::string text = fmt::format("{} of {} ranks: ", missing.size(), group.plan.ranks.size());
  const size_t described = std::min(missing.size(), kRanksDescribed);
  for (size_t i = 0; i < described; ++i) {
    text += fmt::format("{}rank {} ({})", i == 0 ? "" : ", ", missing[i].value,
                        progress_text(group, missing[i], now));
  }
  if (described < missing.size()) {
    text += " and " + ranks_text(std::span(missing).subspan(described));
  }
  return text;
}

/// What a rank that is waited for did last in the group, without its number.
std::string Job::progress_text(const Group& group, Rank rank, Instant now) const {
  const GroupId id = group.plan.group;
  const auto found = record(rank).activities.find(id);
  std::string text = "no operation yet";
  std::string tag;
  if (found != record(rank).activities.end()) {
    const GroupActivity& last = found->second.reported;
    const std::string ago = span_text(last.age + (now - found->second.at));
    tag = last.tag;
    if (last.posted == 0) {
      // Stays as it is.
    } else if (last.completed >= last.posted) {
      text = fmt::format("last posted #{} {}, completed, {} ago", last.posted, last.operation, ago);
    } else if (last.completed + 1 == last.posted) {
      text =
          fmt::format("last posted #{} {}, not complete, {} ago", last.posted, last.operation, ago);
    } else {
      text = fmt::format("last posted #{}; its oldest incomplete one is #{} {}, {} ago",
                         last.posted, last.completed + 1, last.operation, ago);
    }
  }
  if (!tag.empty()) text += fmt::format(", \"{}\"", tag);
  if (group.closed.contains(rank)) text += ", has closed the group";
  if (record(rank).state == RankState::kLeft) text += ", has left";
  return text;
}

void Job::conclude_mismatch(Group& group, const Inquiry& inquiry) {
  const Mismatch& mismatch = *inquiry.mismatch;
  // What is called, by the lowest rank that calls it: that order is the text's.
  std::vector<std::pair<Description, std::vector<Rank>>> calls;
  std::vector<Rank> absent;
  uint64_t sequence = 0;
  for (const auto& [rank, answer] : inquiry.answers) {
    if (answer.sequence == 0) {
      absent.push_back(rank);
      continue;
    }
    if (sequence == 0 || answer.sequence < sequence) sequence = answer.sequence;
    const auto same = std::ranges::find_if(calls, [&answer = answer](const auto& call) {
      return call.first.sequence == answer.sequence && call.first.text == answer.text;
    });
    if (same != calls.end()) {
      same->second.push_back(rank);
    } else {
      calls.emplace_back(answer, std::vector<Rank>{rank});
    }
  }
  const Rank first = std::min(mismatch.rank_a, mismatch.rank_b);
  const Rank second = std::max(mismatch.rank_a, mismatch.rank_b);
  std::string text;
  if (calls.size() < 2) {
    text = fmt::format(
        "operations on group {} do not match: ranks {} and {} send different ones "
        "(digests {:08x} and {:08x})",
        mismatch.group.value, first.value, second.value,
        first == mismatch.rank_a ? mismatch.digest_a : mismatch.digest_b,
        first == mismatch.rank_a ? mismatch.digest_b : mismatch.digest_a);
  } else {
    const auto lowest = std::ranges::find_if(
        calls, [&](const auto& call) { return call.first.sequence == sequence; });
    text = operation_text(lowest->first.text, sequence, mismatch.group) + " does not match";
  }
  for (size_t i = 0; i < calls.size(); ++i) {
    const auto& [call, ranks] = calls[i];
    text += fmt::format("{} {} {} {}", i == 0 ? ":" : ";", ranks_text(ranks),
                        ranks.size() == 1 ? "calls" : "call", call.text);
    if (call.sequence != sequence) text += fmt::format(" as #{}", call.sequence & ~kCallNumber);
  }
  if (calls.size() >= 2 && !absent.empty()) {
    text += fmt::format("; {} {} not called it yet", ranks_text(absent),
                        absent.size() == 1 ? "has" : "have");
  }
  abort_group(group, Error{ErrorCode::kMismatch, std::move(text)}, {first, second});
}

}  // namespace sumcast::control
