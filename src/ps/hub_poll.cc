// What the leader does: reads and writes connections, keeps timers.
#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "net/descriptor.h"
#include "ps/block_pool.h"
#include "ps/customer_core.h"
#include "ps/hub.h"
#include "runtime/log.h"

namespace sumcast::ps {
namespace {

using runtime::Subsystem;

constexpr uint64_t kListenerToken = 0, kWakeToken = 1;
constexpr size_t kReadBudget = 1 << 20;  ///< Of one connection, before the others have their turn.

/// Handlers that run on this thread, one within the other.
thread_local int batch_depth = 0;

}  // namespace

void Hub::begin_batch() { ++batch_depth; }

void Hub::end_batch() {
  if (--batch_depth > 0) return;
  if (replica_.on.load(std::memory_order_acquire)) say_handled();
  flush();
}

void Hub::flush() {
  if (write_wanted_.exchange(false, std::memory_order_acq_rel)) write_dirty();
}

/// A frame was queued. Alone it leaves at once; behind others of the last moments it waits for
/// company: for the end of a handler's batch, for 32 KiB, for Wait, or for the leader to wake up.
void Hub::pass_on(const LinkPtr& link, size_t queued) {
  constexpr size_t kEnough = 32 << 10;
  constexpr Duration kAlone = std::chrono::microseconds(20);
  constexpr Duration kBatchMax = std::chrono::microseconds(100);
  const Duration since = net::monotonic_now() - link->last_write();
  if (queued >= kEnough || since > (batch_depth > 0 ? kBatchMax : kAlone)) {
    link->dirty.store(false, std::memory_order_relaxed);
    write_link(link);
    return;
  }
  link->dirty.store(true, std::memory_order_release);
  const bool asked = write_wanted_.exchange(true, std::memory_order_acq_rel);
  if (!asked && batch_depth == 0) wake();
}

void Hub::write_dirty() {
  std::vector<LinkPtr> dirty;
  {
    const std::shared_lock lock(links_mutex_);
    for (const auto& [token, link] : links_) {
      if (link->dirty.exchange(false, std::memory_order_acq_rel)) dirty.push_back(link);
    }
  }
  for (const LinkPtr& link : dirty) write_link(link);
}

void Hub::write_link(const LinkPtr& link) {
  if (link->write() != WriteVerdict::kDrained) watch_writable(link);
}

/// Polls for writability as long as something is queued.
void Hub::watch_writable(const LinkPtr& link) {
  const std::lock_guard lock(link->interest_mutex);
  const bool wants = link->has_queued();
  if (wants == link->wants_writable) return;
  link->wants_writable = wants;
  const auto interest = wants ? net::Interest::kReadWrite : net::Interest::kRead;
  // It fails only for a connection that is being dropped.
  (void)poller_->modify(link->fd(), link->token, interest);
}

void Hub::poll(Duration longest, std::vector<Arrival>& arrivals) {
  flush();
  const Instant now = net::monotonic_now();
  const Instant next = tend(now);
  std::array<net::Event, 64> events;
  const size_t count = poller_->wait(events, std::min(longest, next - now));
  for (size_t i = 0; i < count; ++i) on_event(events[i], arrivals);
  flush();
  if (notice_wanted_) {
    notice_wanted_ = false;
    crew_.notify();
  }
}

void Hub::on_event(const net::Event& event, std::vector<Arrival>& arrivals) {
  if (event.token == kWakeToken) {
    wake_->drain();
    return;
  }
  if (event.token == kListenerToken) {
    accept_all();
    return;
  }
  LinkPtr link;
  {
    const std::shared_lock lock(links_mutex_);
    const auto it = links_.find(event.token);
    if (it == links_.end()) return;
    link = it->second;
  }
  if (event.writable) {
    link->write();
    watch_writable(link);
  }
  if (event.readable || event.failed) read_link(link, arrivals);
}

void Hub::accept_all() {
  for (;;) {
    auto accepted = listener_->accept();
    if (!accepted) {
      runtime::log_warn(Subsystem::kNet, "ps: {}", accepted.error().what);
      return;
    }
    if (!*accepted) return;
    if (ending_) continue;  // Closed at once; it will try again.
    const LinkPtr link = adopt(std::move(**accepted), auth::Side::kServer);
    // The send buffer of a new connection has room for 48 bytes.
    (void)::send(link->fd(), &link->preface(), sizeof(Preface), MSG_DONTWAIT | MSG_NOSIGNAL);
    const std::lock_guard lock(links_mutex_);
    links_.emplace(link->token, link);
    (void)poller_->add(link->fd(), link->token);
  }
}

bool Hub::read_preface(const LinkPtr& link) {
  Preface other;
  const ssize_t got = ::recv(link->fd(), &other, sizeof other, MSG_PEEK | MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  if (got == static_cast<ssize_t>(sizeof other)) {
    (void)::recv(link->fd(), &other, sizeof other, MSG_DONTWAIT);
    const auto accepted = link->on_preface(other);
    if (accepted) {
      send_hello(link);
      return true;
    }
    runtime::log_warn(Subsystem::kNet, "ps: {}", accepted.error().what);
    drop_link(link);
  } else if (got <= 0) {
    drop_link(link);
  }
  return false;
}

void Hub::read_link(const LinkPtr& link, std::vector<Arrival>& arrivals) {
  if (!link->is_open() && !read_preface(link)) return;
  link->heard_ns.store(net::monotonic_now().ns, std::memory_order_relaxed);
  const LinkVerdict verdict = link->read(
      kReadBudget, [&](const FrameHeader& header, FrameBytes frame, const RoomPtr& room) {
        return on_frame(link, header, std::move(frame), room, arrivals);
      });
  if (link->ack_due) {
    link->ack_due = false;
    link->send_ack(link->received().next());
    write_link(link);
  }
  if (verdict == LinkVerdict::kOpen) return;
  if (verdict == LinkVerdict::kBroken) {
    runtime::log_warn(Subsystem::kNet, "ps: {}", link->ended_text());
  }
  drop_link(link);
}

/// The leader's: a large frame has begun.
RoomPtr Hub::room_for(const Link& link, const FrameHeader& header, size_t bytes) {
  constexpr uint8_t kKind = FrameHeader::kRequest | FrameHeader::kPull;
  if (header.kind != FrameKind::kData || header.sequence != 0) return nullptr;
  if ((header.flags & kKind) != FrameHeader::kPull) return nullptr;
  return rooms_.claim({header.app_id, header.customer_id, header.timestamp, link.node}, bytes);
}

bool Hub::on_frame(const LinkPtr& link, const FrameHeader& header, FrameBytes frame,
                   const RoomPtr& room, std::vector<Arrival>& arrivals) {
  if (drops_ && link->node.load() >= 0 && drops_->chance(settings_.drop)) return true;
  if (header.kind == FrameKind::kAck) {
    link->on_ack(header.sequence, net::monotonic_now());
    write_link(link);
    return true;
  }
  if (header.kind == FrameKind::kReturn) {
    link->on_return(header.sequence);
    return true;
  }
  if (header.sequence == 0) return take_frame(link, header, std::move(frame), room, arrivals);
  link->ack_due = true;
  bool ok = true;
  link->received().on_frame(header.sequence, {header, std::move(frame)}, [&](auto ready) {
    ok = ok && take_frame(link, ready.first, std::move(ready.second), nullptr, arrivals);
  });
  return ok;
}

bool Hub::take_frame(const LinkPtr& link, const FrameHeader& header, FrameBytes frame,
                     const RoomPtr& room, std::vector<Arrival>& arrivals) {
  if (header.kind == FrameKind::kControl) {
    const auto text = read_text(header, frame);
    return text && on_control(link, *text);
  }
  const int node = link->node.load();
  if (node < 0) return false;
  std::vector<size_t> lent;
  ::ps::SArray<char> values;
  if (room != nullptr) values = room->array();
  auto message = read_message(header, frame, lent, room != nullptr ? &values : nullptr);
  if (!message) {
    runtime::log_warn(Subsystem::kNet, "ps: {}: {}", node_text(node), message.error().what);
    return false;
  }
  if (!lent.empty() && !fetch_loans(link, header, *message, lent)) return false;
  if (message->meta.pull && !message->meta.request) {
    rooms_.release({header.app_id, header.customer_id, header.timestamp, node});
  }
  if (header.kind != FrameKind::kData) {
    return header.kind >= FrameKind::kPart
               ? take_merge_frame(link, header, std::move(*message), arrivals)
               : take_replica_frame(link, header, std::move(*message), arrivals);
  }
  if (replica_.on && settings_.role == ::ps::Node::WORKER && is_server(node) &&
      !message->meta.request && !take_answer(node, *message)) {
    return true;
  }
  if (merge_.on && settings_.role == ::ps::Node::WORKER && is_server(node) &&
      !message->meta.request && !is_whole_answer(node, *message)) {
    return true;
  }
  message->meta.sender = node;  // Whose connection it is, whatever the frame says.
  message->meta.recver = my_node_.id;
  if (auto arrival = addressed(std::move(*message))) arrivals.push_back(std::move(*arrival));
  return true;
}

/// Reads the arrays that were lent, and returns them.
bool Hub::fetch_loans(const LinkPtr& link, const FrameHeader& header, ::ps::Message& message,
                      const std::vector<size_t>& lent) {
  if (link->reads == 0) return false;
  for (const size_t i : lent) {
    Loan loan;
    std::memcpy(&loan, message.data[i].data(), sizeof loan);
    if (loan.bytes > kPayloadBytesMax ||
        loan.bytes % element_bytes(message.meta.data_type[i]) != 0) {
      return false;
    }
    const auto bytes = static_cast<size_t>(loan.bytes);
    RoomPtr room = i == 1 ? room_for(*link, header, bytes) : nullptr;
    if (room == nullptr) {
      const std::shared_ptr<char> block = make_block(bytes);
      ::ps::SArray<char> array(block.get(), bytes);
      array.ptr() = block;
      room = std::make_shared<Room>(array);
    }
    Result<void> read;
    room->fill([&](char* to) {
      read = read_memory(link->reads, loan.address, to, bytes);
      return static_cast<ptrdiff_t>(read ? bytes : 0);
    });
    if (!read) {
      runtime::log_warn(Subsystem::kNet, "ps: {}: {}", node_text(link->node.load()),
                        read.error().what);
      return false;
    }
    message.meta.data_size += loan.bytes - message.data[i].size();
    message.data[i] = room->array();
    link->send_return(loan.id);
  }
  link->dirty.store(true, std::memory_order_release);
  write_wanted_.store(true, std::memory_order_release);
  return true;
}

/// Timers. Returns when to look again.
Instant Hub::tend(Instant now) {
  if (now >= next_beat_) {
    beat(now);
    next_beat_ = now + settings_.heartbeat;
  }
  Instant next = std::min(next_beat_, open_customers(now));
  if (merge_.on) next = std::min(next, tend_merge(now));
  if (settings_.resend) {
    std::vector<LinkPtr> links;
    {
      const std::shared_lock lock(links_mutex_);
      for (const auto& [token, link] : links_) links.push_back(link);
    }
    for (const LinkPtr& link : links) {
      next = std::min(next, link->repeat(now));
      if (link->has_queued()) write_link(link);
    }
  }
  return std::max(next, now);
}

void Hub::drop_link(const LinkPtr& link) {
  (void)poller_->remove(link->fd());
  const int node = link->node.load();
  {
    const std::lock_guard lock(links_mutex_);
    links_.erase(link->token);
    if (const auto it = by_node_.find(node); it != by_node_.end() && it->second == link) {
      by_node_.erase(it);
    }
  }
  if (node >= 0) {
    const std::string why = link->ended_text();
    const std::string text = why.empty() ? "it closed the connection" : why;
    if (link->left || !suspect(node, text)) on_lost(node, text, link->left);
  } else if (!link->host.empty()) {
    const std::lock_guard lock(state_mutex_);
    if (roster_) roster_->remove(link->host, link->port);
    runtime::log_warn(Subsystem::kInit, "ps: the process at {}:{} has gone before the job started",
                      link->host, link->port);
  }
}

}  // namespace sumcast::ps
