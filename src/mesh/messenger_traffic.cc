// What messages do: matching, asking, credit, and streams that break.
#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <system_error>

#include "mesh/messenger.h"
#include "net/descriptor.h"

namespace sumcast::mesh {
namespace {

/// Has the kernel given up the connection, for both directions?
bool is_gone(int error_number) {
  return error_number == ECONNRESET || error_number == EPIPE || error_number == ETIMEDOUT;
}

}  // namespace

bool Messenger::on_header(Channel& channel, const MessageHeader& header) {
  const auto found = groups_.find(channel.group);
  if (found == groups_.end()) return false;
  Group& group = found->second;
  if (!channel.outgoing) return on_message(group, channel, header);
  Outlet& outlet = group.outlets[channel.peer];
  const bool good = outlet.channel.get() == &channel && on_reply(outlet, header);
  if (good) flush(channel);
  return good;
}

/// On a stream that the peer opened.
bool Messenger::on_message(Group& group, Channel& channel, const MessageHeader& header) {
  if (header.kind != MessageKind::kBody) {
    compare_call(channel.group, group, channel.peer, header.tag);
  }
  switch (header.kind) {
    case MessageKind::kEager: {
      if (header.bytes > kEagerBytesMax) return false;
      channel.credit_due = true;
      if (ReceivePtr receive = group.board.take_receive(channel.peer, header.tag)) {
        if (!agree(channel.group, *receive, channel.peer, header.bytes, header.check)) return true;
        ++receive->owner->committed;
        channel.expect(receive->what.data, header.bytes);
        channel.receive_under_way = std::move(receive);
        return true;
      }
      if (channel.waiting_bytes + header.bytes > kEagerWindowBytes) return false;
      auto arrival = std::make_shared<Arrival>(
          Arrival{channel.peer, header.tag, header.bytes, header.check, 0, {}, false, nullptr});
      arrival->payload.resize(header.bytes);
      channel.waiting_bytes += header.bytes;
      channel.expect(arrival->payload.data(), header.bytes);
      channel.arrival_under_way = arrival;
      group.board.keep(std::move(arrival));
      return true;
    }
    case MessageKind::kAnnounce: {
      if (header.id == 0) return false;
      if (ReceivePtr receive = group.board.take_receive(channel.peer, header.tag)) {
        if (!agree(channel.group, *receive, channel.peer, header.bytes, header.check)) return true;
        ask_for(group, channel.peer, header.id, std::move(receive));
        return true;
      }
      group.board.keep(std::make_shared<Arrival>(Arrival{
          channel.peer, header.tag, header.bytes, header.check, header.id, {}, false, nullptr}));
      return true;
    }
    case MessageKind::kBody: {
      const auto asked = group.ready.find({channel.peer, header.id});
      if (asked == group.ready.end() || asked->second->what.bytes != header.bytes) return false;
      channel.credit_due = false;
      channel.expect(asked->second->what.data, header.bytes);
      channel.receive_under_way = std::move(asked->second);
      group.ready.erase(asked);
      return true;
    }
    case MessageKind::kExpect:
      return is_call_tag(header.tag);  // Compared already.
    default:
      return false;
  }
}

/// On a stream that this rank opened.
bool Messenger::on_reply(Outlet& outlet, const MessageHeader& header) {
  if (header.kind == MessageKind::kCredit) {
    if (header.bytes > outlet.eager_bytes) return false;
    outlet.eager_bytes -= header.bytes;
    return true;
  }
  if (header.kind != MessageKind::kReady) return false;
  const auto found = outlet.announced.find(header.id);
  if (found == outlet.announced.end()) return false;
  const Sending& what = found->second.what;
  outlet.channel->queue_body({MessageKind::kBody, what.check, what.tag, what.bytes, header.id},
                             what.data, std::move(found->second.owner));
  outlet.announced.erase(found);
  return true;
}

void Messenger::on_payload(Channel& channel) {
  if (ReceivePtr receive = std::move(channel.receive_under_way)) {
    if (channel.credit_due) credit(channel, receive->what.bytes);
    piece_done(receive->owner, channel.peer);
    return;
  }
  const ArrivalPtr arrival = std::move(channel.arrival_under_way);
  if (!arrival) return;
  arrival->complete = true;
  const ReceivePtr taker = std::move(arrival->taker);
  if (!taker) return;
  if (arrival->bytes > 0) std::memcpy(taker->what.data, arrival->payload.data(), arrival->bytes);
  channel.waiting_bytes -= arrival->bytes;
  credit(channel, arrival->bytes);
  piece_done(taker->owner, channel.peer);
}

void Messenger::post_receive(Group& group, GroupId id, const Receiving& what,
                             const ExchangePtr& owner) {
  auto receive = std::make_shared<Receive>(Receive{owner, what});
  const ArrivalPtr arrival = group.board.take_arrival(what);
  if (!arrival) {
    group.board.post(std::move(receive));
    return;
  }
  if (!agree(id, *receive, arrival->from, arrival->bytes, arrival->check)) return;
  if (arrival->id != 0) return ask_for(group, arrival->from, arrival->id, std::move(receive));
  ++owner->committed;
  if (!arrival->complete) {
    arrival->taker = std::move(receive);
    return;
  }
  if (arrival->bytes > 0) std::memcpy(what.data, arrival->payload.data(), arrival->bytes);
  // The sender may have closed its stream since.
  const auto inlet = group.inlets.find(arrival->from);
  if (inlet != group.inlets.end() && inlet->second->waiting_bytes >= arrival->bytes) {
    inlet->second->waiting_bytes -= arrival->bytes;
    credit(*inlet->second, arrival->bytes);
  }
  piece_done(owner, arrival->from);
}

void Messenger::post_send(GroupId id, Group& group, const Sending& what, const ExchangePtr& owner) {
  ++owner->committed;
  Outlet& outlet = group.outlets[what.to];
  if (outlet.refused) return suspect(owner, *outlet.refused);
  if (outlet.channel && outlet.channel->is_shut()) {
    suspect(owner, {ErrorCode::kUnavailable,
                    outlet.channel->peer_name() + " closed its stream: it died, or gave up"});
    return;
  }
  if (outlet.channel) return transmit(outlet, what, owner);
  outlet.waiting.push_back({what, owner});
  request_channel(id, what.to, outlet, owner->deadline->first);
}

void Messenger::request_channel(GroupId id, Rank peer, Outlet& outlet, Instant deadline) {
  if (outlet.opening) return;
  outlet.opening = true;
  to_open_.emplace_back(id, peer, deadline);
  if (!opener_.joinable()) opener_ = std::thread([this] { run_opener(); });
  opener_wake_.notify_all();
}

void Messenger::transmit(Outlet& outlet, const Sending& what, const ExchangePtr& owner) {
  Channel& channel = *outlet.channel;
  const bool eager =
      what.bytes <= kEagerBytesMax && outlet.eager_bytes + what.bytes <= kEagerWindowBytes;
  if (eager) {
    channel.queue({MessageKind::kEager, what.check, what.tag, what.bytes, 0},
                  {what.data, static_cast<size_t>(what.bytes)});
    outlet.eager_bytes += what.bytes;
    piece_done(owner, std::nullopt);
  } else {
    const uint64_t id = ++outlet.ids;
    channel.queue({MessageKind::kAnnounce, what.check, what.tag, what.bytes, id});
    outlet.announced.emplace(id, Outgoing{what, owner});
  }
  flush(channel);
}

/// Do both ends mean the same? If not, the group is over: neither can go on.
bool Messenger::agree(GroupId group, const Receive& receive, Rank from, uint64_t bytes,
                      uint32_t check) {
  if (receive.what.bytes == bytes && receive.what.check == check) return true;
  const std::string what =
      receive.what.bytes != bytes
          ? fmt::format("{} bytes, and rank {} receives {}", bytes, mesh_.me().value,
                        receive.what.bytes)
          : fmt::format("another operation or type than rank {} receives", mesh_.me().value);
  fail_group(group, {ErrorCode::kMismatch, fmt::format("{} sends {}", mesh_.name_of(from), what)});
  return false;
}

/// Tells a sender that its announced message has a place now.
void Messenger::ask_for(Group& group, Rank from, uint64_t id, ReceivePtr receive) {
  const auto inlet = group.inlets.find(from);
  ++receive->owner->committed;
  if (inlet == group.inlets.end() || inlet->second->is_shut()) {
    suspect(receive->owner, {ErrorCode::kUnavailable,
                             mesh_.name_of(from) + " closed its stream before its message came"});
    return;
  }
  group.ready.emplace(std::pair(from, id), std::move(receive));
  inlet->second->queue({MessageKind::kReady, 0, 0, 0, id});
  flush(*inlet->second);
}

void Messenger::credit(Channel& channel, uint64_t bytes) {
  channel.credit_bytes += bytes;
  if (channel.credit_bytes < kCreditStepBytes || channel.is_shut()) return;
  channel.queue({MessageKind::kCredit, 0, 0, channel.credit_bytes, 0});
  channel.credit_bytes = 0;
  flush(channel);
}

void Messenger::piece_done(const ExchangePtr& owner, std::optional<Rank> from) {
  if (from) owner->source = from;
  if (--owner->left == 0) finish(owner, std::nullopt);
}

void Messenger::flush(Channel& channel) {
  if (channel.is_shut() || !channel.has_queued()) return;
  std::vector<ExchangePtr> left;
  const int error = channel.flush(left);
  for (const ExchangePtr& owner : left) piece_done(owner, std::nullopt);
  if (error != 0 && !channel.outgoing && is_gone(error)) {
    // What it sent before is still in the kernel, and is read up to its end: that breaks the
    // channel. Reading further is safe, since a dead connection always ends.
    channel.drop_output();
    return;
  }
  if (error != 0) return on_broken(channel, error);
  if (!channel.has_queued()) {
    drained_.notify_all();
  } else if (!channel.watched_for_write) {
    wake_.signal();
  }
}

/// Those who wait for this peer will be told, unless the coordinator does so first.
void Messenger::on_broken(Channel& channel, int error_number) {
  if (error_number == 0 || channel.is_shut()) return;
  const auto found = groups_.find(channel.group);
  const std::string name = channel.peer_name();
  const Error why =
      error_number == EBADMSG
          ? Error{ErrorCode::kInternal, name + " sent bytes that are no message"}
      : error_number == kPeerClosed || error_number == ECONNRESET || error_number == EPIPE
          ? Error{ErrorCode::kUnavailable, name + " closed its stream: it died, or gave up"}
          : Error{ErrorCode::kUnavailable,
                  fmt::format("the stream to {} broke: {}", name,
                              std::system_category().message(error_number))};
  std::vector<ExchangePtr> victims;
  if (channel.receive_under_way) victims.push_back(channel.receive_under_way->owner);
  if (channel.arrival_under_way && channel.arrival_under_way->taker) {
    victims.push_back(channel.arrival_under_way->taker->owner);
  }
  if (found != groups_.end()) {
    Group& group = found->second;
    if (channel.outgoing) {
      const Outlet& outlet = group.outlets[channel.peer];  // Empty if the channel lingers.
      for (const auto& [id, message] : outlet.announced) victims.push_back(message.owner);
      for (const Outgoing& message : outlet.waiting) victims.push_back(message.owner);
      channel.append_owners(victims);
    } else {
      for (const auto& [key, receive] : group.ready) {
        if (key.first == channel.peer) victims.push_back(receive->owner);
      }
      for (auto& owner : group.board.waiting_for(channel.peer)) victims.push_back(std::move(owner));
      const auto inlet = group.inlets.find(channel.peer);
      if (inlet != group.inlets.end() && inlet->second.get() == &channel) group.inlets.erase(inlet);
    }
  }
  channel.shut();
  wake_.signal();
  drained_.notify_all();
  for (const ExchangePtr& victim : victims) suspect(victim, why);
}

/// The peer's stream could not be opened: it has ended the group, perhaps, and why is to be heard.
/// Nothing is sent to it any more, for it would arrive without what was to come before.
void Messenger::refuse_waiting(Outlet& outlet, const Error& why) {
  // A question alone is not worth a group: what is late has its own deadline.
  if (outlet.waiting.empty()) return;
  outlet.refused = why;
  for (const Outgoing& message : std::exchange(outlet.waiting, {})) suspect(message.owner, why);
  drained_.notify_all();
}

/// The exchange cannot succeed any more; it ends soon.
void Messenger::suspect(const ExchangePtr& exchange, const Error& why) {
  if (exchange->done || exchange->suspicion) return;
  exchange->suspicion = why;
  const ExchangePtr keep = exchange;
  const Instant end = std::min(keep->deadline->first, net::monotonic_now() + kSuspicion);
  exchanges_.erase(keep->deadline);
  keep->deadline = exchanges_.emplace(end, keep);
  wake_.signal();
}

}  // namespace sumcast::mesh
