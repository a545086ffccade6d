// Calls that all ranks of a group make in the same order, out of messages: do they make the same
// (P4)?
//
// A rank notes what it calls as its n-th. Each message of a call carries a hash of that, so whoever
// receives it compares. A rank that only waits sends nothing by which others could see what it
// calls; if it waits for long it tells those whom it waits for (kExpect).
#include <fmt/format.h>

#include "mesh/messenger.h"
#include "net/descriptor.h"
#include "runtime/log.h"

namespace sumcast::mesh {
namespace {

/// As many calls as a rank may be behind another one, and still be understood.
constexpr size_t kCallsKept = 512;
/// Calls of peers that are ahead; more are not compared.
constexpr size_t kForeignCallsMax = 8192;
/// Whoever waits longer than this for a message of a call asks. Long beside a slow start, short
/// beside any timeout.
constexpr Duration kAskAfter = 500ms;
/// A deadline so far away is none.
constexpr Duration kForEver = std::chrono::hours(24 * 30);
constexpr Duration kAskStep = 100ms;

}  // namespace

uint64_t call_tag(uint32_t number, std::string_view text) {
  uint64_t hash = 0xCBF29CE484222325u ^ number;
  for (const char letter : text) {
    hash ^= static_cast<unsigned char>(letter);
    hash *= 0x100000001B3u;
  }
  hash ^= hash >> 32;
  hash *= 0xFF51AFD7ED558CCDu;
  const uint64_t digest = std::max<uint64_t>(hash >> 41, 1);  // 23 bits; 0 is no digest.
  return uint64_t{1} << 63 | digest << 40 | uint64_t{number} << 8;
}

uint64_t Messenger::note_call(GroupId id, uint32_t number, std::string_view text) {
  const uint64_t tag = call_tag(number, text);
  Lock lock(mutex_);
  const auto found = groups_.find(id);
  if (found == groups_.end() || found->second.early_since) return tag;
  Group& group = found->second;
  group.calls.insert_or_assign(number, NotedCall{tag, std::string(text)});
  if (group.calls.size() > kCallsKept) group.calls.erase(group.calls.begin());
  std::erase_if(group.foreign_calls, [&](const auto& entry) {
    const auto& [key, foreign] = entry;
    if (key.second == number) compare_call(id, group, key.first, foreign);
    return key.second <= number;
  });
  unlock_and_tell(lock);
  return tag;
}

std::optional<Messenger::Call> Messenger::find_call(GroupId id, uint32_t number,
                                                    uint32_t digest) const {
  const std::lock_guard lock(mutex_);
  const auto group = groups_.find(id);
  if (group == groups_.end()) return std::nullopt;
  for (const auto& [one, call] : group->second.calls) {
    if (number != 0 ? one == number : call_digest(call.tag) == digest) return Call{one, call.text};
  }
  return std::nullopt;
}

/// A peer shows what it calls. Calls that this rank has not come to yet are kept.
void Messenger::compare_call(GroupId id, Group& group, Rank peer, uint64_t tag) {
  if (!is_call_tag(tag)) return;
  const uint32_t number = call_number(tag);
  const auto mine = group.calls.find(number);
  if (mine == group.calls.end()) {
    const bool ahead = group.calls.empty() || number > group.calls.rbegin()->first;
    if (ahead && group.foreign_calls.size() < kForeignCallsMax) {
      group.foreign_calls.insert_or_assign({peer, number}, tag);
    }
    return;
  }
  if (is_same_call(mine->second.tag, tag) || group.disagrees) return;
  group.disagrees = true;
  to_tell_.push_back(
      [this, id, peer, mine = call_digest(mine->second.tag), theirs = call_digest(tag)] {
        if (on_mismatch_) on_mismatch_(id, mine, peer, theirs);
      });
}

/// Tells the senders of messages that are late what they are expected for.
void Messenger::ask_about_late(Instant now) {
  if (now < ask_at_) return;
  ask_at_ = now + kAskStep;
  notice_late(now);
  for (auto& [id, group] : groups_) {
    if (group.aborted) continue;
    std::vector<ReceivePtr> late;
    group.board.each_receive([&](const ReceivePtr& receive) {
      const Exchange& owner = *receive->owner;
      if (!is_call_tag(receive->what.tag) || !receive->what.from || owner.asked) return;
      if (now - owner.posted_at >= kAskAfter) late.push_back(receive);
    });
    for (const ReceivePtr& receive : late) {
      receive->owner->asked = true;
      expect(id, group, *receive);
    }
  }
}

/// Says of exchanges that wait for long what they wait for.
void Messenger::notice_late(Instant now) {
  for (const auto& [deadline, exchange] : exchanges_) {
    // Who may wait for ever is nobody's worry: servers between rounds, ears.
    if (now < exchange->notice_at || deadline - now >= kForEver) continue;
    const Duration waited = now - exchange->posted_at;
    exchange->notice_at = now + waited;
    const auto seconds = [](Duration span) { return std::chrono::duration<double>(span).count(); };
    std::string text =
        fmt::format("messages of group {} have waited {:.1f} s: {}; they fail in {:.1f} s",
                    exchange->group.value, seconds(waited),
                    missing_text(groups_.at(exchange->group), exchange), seconds(deadline - now));
    to_tell_.push_back(
        [text = std::move(text)] { runtime::log_warn(runtime::Subsystem::kColl, "{}", text); });
  }
}

void Messenger::expect(GroupId id, Group& group, const Receive& receive) {
  Outlet& outlet = group.outlets[*receive.what.from];
  if (outlet.channel && outlet.channel->is_shut()) return;
  outlet.expected.push_back(receive.what.tag);
  if (outlet.channel) return send_expected(outlet);
  request_channel(id, *receive.what.from, outlet, receive.owner->deadline->first);
}

void Messenger::send_expected(Outlet& outlet) {
  for (const uint64_t tag : std::exchange(outlet.expected, {})) {
    outlet.channel->queue({MessageKind::kExpect, 0, tag, 0, 0});
  }
  flush(*outlet.channel);
}

}  // namespace sumcast::mesh
