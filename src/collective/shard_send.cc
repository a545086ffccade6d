// Everything a shard sends: results in runs to every member, repairs, asks, and the small answers.
#include <algorithm>
#include <array>
#include <cstring>

#include "auth/key_file.h"
#include "base/assert.h"
#include "collective/shard_host.h"
#include "collective/shard_state.h"
#include "wire/bytes.h"

namespace sumcast::collective {
namespace {

constexpr Duration kBlockedRetry = std::chrono::microseconds(300);

}  // namespace

bool ShardHost::flush(Instant now) {
  bool delivered = false;
  // Delivering a result locally can complete further slots: those wait for the next flush.
  std::vector<Group*> dirty;
  dirty.swap(dirty_);
  thread_local std::vector<uint16_t> slots;
  for (Group* group : dirty) {
    seal_padded(group->job, *group);
    uint64_t bytes = 0;
    for (const uint16_t slot : group->completed) bytes += group->result_bytes(slot);
    group->sending.on_batch(now, bytes);
    fan_out(*group);
    slots.assign(group->completed.begin(), group->completed.end());
    group->completed.clear();
    if (deliver_locally(*group, slots, now)) delivered = true;
  }
  std::vector<Repair> repairs;
  repairs.swap(repairs_);
  for (const Repair& repair : repairs) {
    const uint16_t slot[1] = {repair.slot};
    counters_.add(ShardWork::kRepairs);
    if (repair.group->job.local_rank == repair.group->ranks[repair.member]) continue;
    send_slots(*repair.group, repair.member, nullptr, slot);
  }
  tell_probers();
  if (!blocked_.empty() && retry_at_ == Instant::never()) retry_at_ = now + kBlockedRetry;
  return delivered;
}

void ShardHost::fan_out(Group& group) {
  Job& job = group.job;
  // Where a member wants no lanes, results differ: each is sent its own.
  const bool alike = std::ranges::none_of(group.completed, [&](uint16_t slot) {
    const size_t version = group.version_index(slot);
    return group.has_quiet[version] && group.result_lanes[version] != 0;
  });
  thread_local std::vector<const Outlet*> served;
  served.clear();
  for (const auto& outlet : job.outlets) {
    if (!alike || !serves(*outlet, group)) continue;
    send_slots(group, kListeners, outlet.get(), group.completed);
    served.push_back(outlet.get());
  }
  for (uint16_t member = 0; member < group.members(); ++member) {
    const Rank rank = group.ranks[member];
    if (job.local_rank == rank) continue;
    const Outlet* outlet = job.members[rank.value].outlet;
    if (outlet != nullptr && std::ranges::find(served, outlet) != served.end()) continue;
    send_slots(group, member, nullptr, group.completed);
  }
}

/// Cuts a list of slots into runs of equal datagrams, the last of which may be shorter: an
/// operation's last chunk travels with those before it.
void ShardHost::send_slots(Group& group, uint16_t member, Outlet* outlet,
                           std::span<const uint16_t> slots) {
  const auto length = [&](uint16_t slot) {
    const bool empty = outlet == nullptr && group.sends_empty(slot, member);
    return empty ? static_cast<uint32_t>(wire::kHeaderBytes + group.tag_bytes)
                 : group.result_bytes(slot);
  };
  size_t begin = 0;
  while (begin < slots.size()) {
    const uint32_t bytes = length(slots[begin]);
    const size_t limit = std::min<size_t>(slots.size(), begin + net::segments_max(bytes));
    size_t end = begin + 1;
    while (end < limit && length(slots[end]) == bytes) ++end;
    if (end < limit && length(slots[end]) < bytes) ++end;
    send_run(group, member, outlet, slots.subspan(begin, end - begin));
    begin = end;
  }
}

/// Flows take turns. nullptr: the member has not proved an address yet (P13); it will probe.
ShardHost::Flow* ShardHost::next_flow(Group& group, uint16_t member) {
  Member& to = group.job.members[group.ranks[member].value];
  for (size_t i = 0; i < to.flows.size(); ++i) {
    to.next_flow = static_cast<uint16_t>((to.next_flow + 1) % to.flows.size());
    if (to.flows[to.next_flow].proven) return &to.flows[to.next_flow];
  }
  return nullptr;
}

void ShardHost::send_run(Group& group, uint16_t member, Outlet* outlet,
                         std::span<const uint16_t> slots) {
  Flow* const flow = outlet == nullptr ? next_flow(group, member) : nullptr;
  if (outlet == nullptr && flow == nullptr) return;

  std::array<iovec, net::kSegmentsMax> parts;
  size_t count = 0;
  uint32_t bytes = 0, first_bytes = 0;
  for (const uint16_t slot : slots) {
    const bool empty = outlet == nullptr && group.sends_empty(slot, member);
    std::byte* start = empty ? group.empty_result(slot) : group.result(slot);
    bytes = empty ? static_cast<uint32_t>(wire::kHeaderBytes + group.tag_bytes)
                  : group.result_bytes(slot);
    if (count == 0) first_bytes = bytes;
    // Neighbouring slots whose datagrams fill their strides are one piece of memory.
    if (count > 0 &&
        static_cast<std::byte*>(parts[count - 1].iov_base) + parts[count - 1].iov_len == start) {
      parts[count - 1].iov_len += bytes;
    } else {
      parts[count++] = iovec{start, bytes};
    }
  }
  net::SendRun run;
  if (outlet != nullptr && !outlet->own) run.to = &outlet->group;
  if (flow != nullptr && !flow->socket) run.to = &flow->to;
  run.parts = {parts.data(), count};
  run.datagram_bytes = first_bytes;
  run.last_bytes = bytes;
  run.datagrams = static_cast<uint32_t>(slots.size());
  net::UdpSocket& socket = outlet != nullptr ? socket_of(*outlet)
                           : flow->socket    ? *flow->socket
                                             : socket_;
  net::SendOutcome outcome = socket.send(run);
  if (outcome.failure == net::SendFailure::kRefused) outcome = socket.send(run);
  count_sent(run, outcome.datagrams);
  if (outlet != nullptr) {
    outlet->sent += outcome.datagrams;
    counters_.add(ShardWork::kMulticast, outcome.datagrams);
  }
  if (outcome.would_block) {
    counters_.add(ShardWork::kBlocked);
    for (size_t i = outcome.datagrams; i < slots.size(); ++i) {
      blocked_.push_back(Repair{&group, slots[i], member, outlet});
    }
  } else if (outcome.failure != net::SendFailure::kNone) {
    counters_.add(ShardWork::kSendFailures);  // Lost; the worker asks again.
  }
}

/// What a full socket buffer refused goes out later, unless a newer result has taken its place.
void ShardHost::retry_blocked() {
  for (Group* group : dirty_) seal_padded(group->job, *group);  // A blocked slot may be among them.
  retry_at_ = Instant::never();
  std::vector<Repair> blocked;
  blocked.swap(blocked_);
  thread_local std::vector<uint16_t> slots;
  for (size_t begin = 0; begin < blocked.size();) {
    size_t end = begin;
    slots.clear();
    const Repair& first = blocked[begin];
    while (end < blocked.size() && blocked[end].group == first.group &&
           blocked[end].member == first.member && blocked[end].outlet == first.outlet) {
      slots.push_back(blocked[end++].slot);
    }
    send_slots(*first.group, first.member, first.outlet, slots);
    begin = end;
  }
}

bool ShardHost::deliver_locally(Group& group, std::span<const uint16_t> slots, Instant now) {
  Job& job = group.job;
  if (job.local == nullptr || group.member_of_rank[job.local_rank->value] < 0) return false;
  const auto member = static_cast<uint16_t>(group.member_of_rank[job.local_rank->value]);
  for (const uint16_t slot : slots) {
    wire::Header header = written_header(group, slot);
    const std::byte* result = group.result(slot);
    const bool wants = group.pool.wants_lanes(slot, member);
    if (!wants) header.flags |= wire::kFlagQuiet;
    const uint32_t bytes = wants ? group.result_lanes[group.version_index(slot)] : 0;
    job.local->on_local_result(header, {result + wire::kHeaderBytes, bytes}, now);
  }
  return !slots.empty();
}

void ShardHost::send_small(Job& job, Member& member, uint16_t flow_index, wire::Header header,
                           std::span<const std::byte> payload) {
  if (flow_index >= member.flows.size()) return;
  Flow& flow = member.flows[flow_index];
  const net::Endpoint* to = flow.proven ? &flow.to : &flow.candidate;
  if (!to->is_set()) return;
  send_signed(job, flow.socket ? *flow.socket : socket_, flow.socket ? nullptr : to, header,
              payload);
}

/// @param to  nullptr: where the socket is connected to.
void ShardHost::send_signed(Job& job, net::UdpSocket& socket, const net::Endpoint* to,
                            wire::Header header, std::span<const std::byte> payload) {
  std::array<std::byte, kDatagramBytesMax> bytes;
  const size_t tag = job.signer.tag_bytes();
  const size_t total = wire::kHeaderBytes + payload.size() + tag;
  SUMCAST_ASSERT(total <= bytes.size());
  header.epoch = static_cast<uint8_t>(job.epoch.value);
  header.incarnation = job.incarnation.value;
  std::byte* body = bytes.data() + wire::kHeaderBytes;
  if (!payload.empty()) std::memcpy(body, payload.data(), payload.size());
  job.signer.seal(header, {body, payload.size()}, bytes.data(), body + payload.size());
  const iovec part{bytes.data(), total};
  const net::SendRun run = net::SendRun::single(to, part);
  const net::SendOutcome outcome = socket.send(run);
  count_sent(run, outcome.datagrams);
  if (!outcome.complete()) counters_.add(ShardWork::kSendFailures);
}

/// All datagrams of a run have one size, but for the last.
void ShardHost::count_sent(const net::SendRun& run, uint32_t datagrams) {
  if (datagrams == 0) return;
  counters_.add(ShardWork::kPacketsSent, datagrams);
  const bool whole = datagrams == run.datagrams;
  counters_.add(ShardWork::kBytesSent, uint64_t{datagrams - 1} * run.datagram_bytes +
                                           (whole ? run.last_bytes : run.datagram_bytes));
}

/// One datagram per member and up to kNotesMax slots.
void ShardHost::send_asks(Group& group, std::span<const core::Ask> asks) {
  if (asks.empty()) return;
  thread_local std::vector<core::Ask> sorted;
  sorted.assign(asks.begin(), asks.end());
  std::ranges::stable_sort(sorted, {}, &core::Ask::member);
  std::array<std::byte, kNotesMax * wire::kNoteBytes> notes;
  for (size_t begin = 0; begin < sorted.size();) {
    const uint16_t member = sorted[begin].member;
    size_t count = 0;
    while (begin < sorted.size() && sorted[begin].member == member && count < kNotesMax) {
      const uint16_t slot = sorted[begin++].slot;
      wire::write_note(wire::Note{static_cast<uint16_t>(group.slot_base + slot),
                                  group.pool.phase(slot), group.pool.collecting_digest(slot)},
                       notes.data() + wire::kNoteBytes * count++);
    }
    counters_.add(ShardWork::kAsks, count);
    const Rank rank = group.ranks[member];
    if (group.job.local_rank == rank) continue;  // Its contributions cannot be lost.
    wire::Header header;
    header.kind = wire::Kind::kAsk;
    header.total_or_next = group.job.members[rank.value].heard;
    send_small(group.job, group.job.members[rank.value], 0, header,
               std::span(notes).first(count * wire::kNoteBytes));
  }
}

/// Behind the results themselves: whoever hears this and has no result knows that it was lost (P6).
void ShardHost::tell_probers() {
  std::vector<Repair> told;
  told.swap(told_);
  if (!blocked_.empty()) return;  // They have not all left: who waits probes again.
  std::array<std::byte, kNotesMax * wire::kNoteBytes> notes;
  for (size_t begin = 0; begin < told.size();) {
    Group& group = *told[begin].group;
    const uint16_t member = told[begin].member;
    size_t count = 0;
    while (begin < told.size() && told[begin].group == &group && told[begin].member == member &&
           count < kNotesMax) {
      const uint16_t slot = told[begin++].slot;
      const core::StoredResult& stored = group.pool.stored(slot);
      wire::write_note(
          wire::Note{static_cast<uint16_t>(group.slot_base + slot), stored.phase, stored.digest},
          notes.data() + wire::kNoteBytes * count++);
    }
    Member& to = group.job.members[group.ranks[member].value];
    wire::Header header;
    header.kind = wire::Kind::kAsk;
    header.chunk = static_cast<uint32_t>(Asking::kHasLeft);
    header.total_or_next = to.heard;
    counters_.add(ShardWork::kToldOnly, count);
    send_small(group.job, to, 0, header, std::span(notes).first(count * wire::kNoteBytes));
  }
}

/// Did the slot's stored result leave after all that its prober had heard of us?
bool ShardHost::is_on_its_way(const Group& group, uint16_t slot, uint32_t heard) {
  return serial_before(heard, group.result_counter[group.version_index(slot)]);
}

void ShardHost::on_probe(Job& job, const wire::Header& header, std::span<const std::byte> notes,
                         Instant now) {
  const Rank rank(header.sender);
  std::array<core::Ask, 256> memory;
  for (size_t at = 0; at + wire::kNoteBytes <= notes.size(); at += wire::kNoteBytes) {
    const wire::Note note = wire::read_note(notes.data() + at);
    Group* group = group_of_slot(job, note.slot);
    if (group == nullptr || group->member_of_rank[rank.value] < 0) continue;
    const auto member = static_cast<uint16_t>(group->member_of_rank[rank.value]);
    const auto slot = static_cast<uint16_t>(note.slot - group->slot_base);
    BoundedList<core::Ask> asks(memory);
    switch (group->pool.on_probe(member, slot, note.phase_or_number, now, asks)) {
      case core::ProbeVerdict::kAnswer:
        (is_on_its_way(*group, slot, header.total_or_next) ? told_ : repairs_)
            .push_back(Repair{group, slot, member});
        break;
      case core::ProbeVerdict::kAskProber:
        asks.push(core::Ask{member, slot});
        counters_.add(ShardWork::kAsksOfProber);
        [[fallthrough]];
      case core::ProbeVerdict::kWaiting:
        send_asks(*group, asks.view());
        break;
      default:
        break;
    }
  }
}

void ShardHost::on_gap(Job& job, Rank rank, std::span<const std::byte> notes) {
  for (size_t at = 0; at + wire::kNoteBytes <= notes.size(); at += wire::kNoteBytes) {
    const wire::Note note = wire::read_note(notes.data() + at);
    Group* group = group_of_slot(job, note.slot);
    if (group == nullptr || group->member_of_rank[rank.value] < 0) continue;
    const uint16_t slot = group->pool.find_result(note.digest, note.phase_or_number);
    if (slot == core::OrderList::kNone) continue;
    counters_.add(ShardWork::kRepairsOfGaps);
    repairs_.push_back(
        Repair{group, slot, static_cast<uint16_t>(group->member_of_rank[rank.value])});
  }
}

/// Address proof and path probe (P13): a cookie goes to the address that a hello came from; only a
/// hello that brings it back makes the address one to send results to. From then on hellos of any
/// size are acknowledged by a datagram of the same size, which tries the path both ways (P12).
void ShardHost::on_hello(Job& job, const wire::Header& header, std::span<const std::byte> datagram,
                         const net::Endpoint& from) {
  Member& member = job.members[header.sender];
  if (header.slot >= member.flows.size()) return;
  Flow& flow = member.flows[header.slot];
  const size_t tag = job.signer.tag_bytes();
  if (datagram.size() < wire::kHeaderBytes + 8 + tag || datagram.size() > kDatagramBytesMax) return;
  const auto cookie = wire::load_big<uint64_t>(datagram.data() + wire::kHeaderBytes);
  wire::Header answer;
  answer.slot = header.slot;
  if (!flow.proven || !(flow.to == from)) {
    if (cookie == 0 || cookie != flow.cookie || !(flow.candidate == from)) {
      if (flow.proven) return;  // A proved address stays; a worker never changes it.
      if (flow.cookie == 0 || !(flow.candidate == from)) {
        flow.candidate = from;
        flow.cookie = auth::random_u64() | 1u;
      }
      std::array<std::byte, 8> body;
      wire::store_big(body.data(), flow.cookie);
      answer.kind = wire::Kind::kChallenge;
      return send_small(job, member, header.slot, answer, body);
    }
    if (!adopt_flow(member, header.slot, from)) return;
  }
  answer.kind = wire::Kind::kHelloAck;
  answer.total_or_next = static_cast<uint32_t>(datagram.size());
  answer.chunk =
      static_cast<uint32_t>((flow.socket ? *flow.socket : socket_).receive_buffer_bytes());
  thread_local std::vector<std::byte> padding;
  padding.assign(datagram.size() - wire::kHeaderBytes - tag, std::byte{0});
  send_small(job, member, header.slot, answer, padding);
}

bool ShardHost::adopt_flow(Member& member, uint16_t index, const net::Endpoint& from) {
  Flow& flow = member.flows[index];
  if (options_.socket_per_member) {
    net::UdpOptions udp;
    udp.local = socket_.local();
    udp.dual_stack = udp.local.family() == net::Family::kIpv6;
    udp.reuse_address = true;
    udp.receive_buffer_bytes = udp.send_buffer_bytes = options_.socket_buffer_bytes;
    auto socket = net::UdpSocket::open(udp);
    if (!socket || !socket->connect(from)) return false;  // Descriptors ran out: it tries again.
    flow.socket = std::make_unique<net::UdpSocket>(std::move(*socket));
    // Places of flows that are gone are used again; place 0 is the shared socket.
    auto place = std::find(flows_by_token_.begin() + 1, flows_by_token_.end(), nullptr);
    if (place == flows_by_token_.end()) place = flows_by_token_.insert(place, nullptr);
    *place = &flow;
    flow.token = token_base_ + static_cast<uint64_t>(place - flows_by_token_.begin());
    if (!poller_.add(flow.socket->fd(), flow.token)) return false;
  }
  flow.to = from;
  flow.proven = true;
  return true;
}

void ShardHost::on_ping(Job& job, const wire::Header& header, std::span<const std::byte> payload) {
  if (payload.size() != 8) return;
  wire::Header answer;
  answer.kind = wire::Kind::kPong;
  send_small(job, job.members[header.sender], header.slot, answer, payload);
}

}  // namespace sumcast::collective
