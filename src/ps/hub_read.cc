// What comes in on connections: prefaces, frames, arrays that are lent.
#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

#include "net/descriptor.h"
#include "ps/block_pool.h"
#include "ps/customer_core.h"
#include "ps/hub.h"
#include "ps/internal/postoffice.h"
#include "runtime/log.h"

namespace sumcast::ps {
namespace {

using runtime::Subsystem;

constexpr size_t kReadBudget = 1 << 20;  ///< Of one connection, before the others have their turn.
constexpr size_t kLoanStep = 64 << 20;   ///< Takes some ten ms: far less than others wait for us.

/// Memory for an array that a peer announces; null if there is not so much.
RoomPtr make_room(size_t bytes) {
  try {
    const std::shared_ptr<char> block = make_block(bytes);
    ::ps::SArray<char> array(block.get(), bytes);
    array.ptr() = block;
    return std::make_shared<Room>(array);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

}  // namespace

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
  // Numbers below zero are ours, for what another server's log brings, and for sums.
  if (message->meta.request && message->meta.timestamp < 0 && (replica_.on || merge_.on)) {
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
      !message->meta.request && !is_programs(node, *message, arrivals)) {
    return true;
  }
  if (replica_.on && merge_.on && settings_.role == ::ps::Node::SERVER && message->meta.request) {
    if (!is_sound_sum(*message)) return false;
    if (!take_own_sum(node, message->meta)) return true;
  }
  message->meta.sender = node;  // Whose connection it is, whatever the frame says.
  message->meta.recver = my_node_.id;
  PS_VLOG(2) << "receives " << message->DebugString();
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
    if (room == nullptr) room = make_room(bytes);
    if (room == nullptr) {
      runtime::log_warn(Subsystem::kNet, "ps: no memory for an array of {} bytes from {}", bytes,
                        node_text(link->node.load()));
      return false;
    }
    Result<void> read;
    room->fill([&](char* to) {
      for (size_t at = 0; read && at < bytes; at += kLoanStep) {
        read =
            read_memory(link->reads, loan.address + at, to + at, std::min(kLoanStep, bytes - at));
        keep_alive();
      }
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

}  // namespace sumcast::ps
