// What the leader does: polls, accepts and writes connections, keeps timers. hub_read.cc reads
// them.
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "net/descriptor.h"
#include "ps/customer_core.h"
#include "ps/hub.h"
#include "runtime/log.h"

namespace sumcast::ps {
namespace {

using runtime::Subsystem;

constexpr uint64_t kListenerToken = 0, kWakeToken = 1;
constexpr size_t kWriteBudget = 64 << 20;  ///< Of one connection, before we look at the others.

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

/// The program's threads do not run ahead of the network by more frames than the user allows. A
/// handler's thread does not wait: it may be the one that others wait for.
void Hub::await_room(const LinkPtr& link) {
  constexpr int kLookAgainMs = 20;  // A dead node's link goes without becoming writable.
  if (batch_depth > 0) return;
  const int node = link->node.load();
  while (link->queued_frames() >= settings_.water_mark && link_to(node) == link && !stopping_) {
    write_link(link);
    if (link->queued_frames() < settings_.water_mark) break;
    pollfd writable{link->fd(), POLLOUT, 0};
    (void)::poll(&writable, 1, kLookAgainMs);
  }
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
  if (link->write(kWriteBudget) != WriteVerdict::kDrained) watch_writable(link);
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
  if (early_due_) take_early(arrivals);
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
    link->write(kWriteBudget);
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
    if (roster_ && !roster_->is_complete()) {
      roster_->remove(link->host, link->port);
      key_plan_.remove(fmt::format("{}:{}", link->host, link->port));
    }
    runtime::log_warn(Subsystem::kInit, "ps: the process at {}:{} has gone before the job started",
                      link->host, link->port);
  }
}

}  // namespace sumcast::ps
