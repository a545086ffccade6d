// The turns of the loop, and the coordinator's effects on sockets.
#include "control/server_loop.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>

#include "base/assert.h"
#include "runtime/clock.h"

namespace sumcast::control {

namespace {

constexpr uint64_t kListenerToken = 0;
constexpr uint64_t kWakeUpToken = 1;
constexpr Duration kFarewellTime = 250ms;
constexpr Duration kPauseNoticed = 50ms;

}  // namespace

ServerLoop::ServerLoop(ServerOptions options, JobObserver& observer, net::TcpListener listener,
                       net::Poller poller, net::WakeUp wake_up)
    : options_(std::move(options)),
      observer_(observer),
      listener_(std::move(listener)),
      poller_(std::move(poller)),
      wake_up_(std::move(wake_up)),
      coordinator_(options_.coordinator, *this) {}

Result<void> ServerLoop::start() {
  if (auto added = poller_.add(listener_.fd(), kListenerToken); !added) return added;
  if (auto added = poller_.add(wake_up_.fd(), kWakeUpToken); !added) return added;
  thread_ = std::thread([this] { run(); });
  return {};
}

ServerLoop::~ServerLoop() { stop(); }

void ServerLoop::stop() {
  stopping_.store(true);
  wake_up_.signal();
  if (thread_.joinable()) thread_.join();
}

void ServerLoop::report_mismatch(Incarnation incarnation, const Mismatch& mismatch) {
  {
    const std::lock_guard lock(mail_mutex_);
    // Every datagram of a mismatching operation would report it; one inquiry needs one letter.
    constexpr size_t kLettersMax = 64;
    if (mail_.size() >= kLettersMax) return;
    mail_.emplace_back(incarnation, mismatch);
  }
  wake_up_.signal();
}

void ServerLoop::run() {
  while (!stopping_.load()) turn(Instant::never());
  say_farewell();
}

/// Waits until something comes or is due (`until` at the latest), and deals with all of it.
void ServerLoop::turn(Instant until) {
  std::array<net::Event, 64> events;
  Instant due;
  {
    const std::lock_guard lock(mutex_);
    due = std::min(until, next_deadline());
  }
  const Instant began = runtime::monotonic_now();
  size_t count = poller_.wait(events, due == Instant::never() ? Duration::max() : due - began);
  const std::lock_guard lock(mutex_);
  notice_pause(began, due);
  // All that has come is read before anybody is declared silent: after a pause of this process the
  // heartbeats lie in the sockets. Passes are bounded all the same.
  for (int pass = 0; count > 0 && pass < 64; ++pass) {
    for (const net::Event& event : std::span(events).first(count)) {
      if (event.token == kListenerToken) {
        accept_all();
      } else if (event.token == kWakeUpToken) {
        wake_up_.drain();
      } else if (const auto found = peers_.find(ConnectionId(event.token)); found != peers_.end()) {
        if (event.readable || event.failed) on_readable(found->first, found->second);
      }
    }
    for (auto& [id, peer] : peers_) flush(id, peer);
    remove_lost();
    if (count < events.size()) break;
    count = poller_.wait(events, 0ns);
  }
  take_mail();
  expire();
  for (auto& [id, peer] : peers_) flush(id, peer);
  remove_lost();
}

/// Sets now_. If this thread has not listened for a while, because the last turn was long (a world
/// of hundreds being welcomed) or the process was stopped, that is not the ranks' silence.
void ServerLoop::notice_pause(Instant began, Instant due) {
  const Duration worked = now_.is_set() ? began - now_ : 0ns;
  now_ = runtime::monotonic_now();
  const Duration overslept = std::max<Duration>(0ns, now_ - std::max(began, due));
  if (worked + overslept >= kPauseNoticed) coordinator_.on_pause(worked + overslept, now_);
}

Instant ServerLoop::next_deadline() const {
  Instant next = coordinator_.next_deadline();
  for (const auto& [id, peer] : peers_) next = std::min(next, peer.deadline);
  if (listen_again_.is_set()) next = std::min(next, listen_again_);
  return next;
}

void ServerLoop::take_mail() {
  std::vector<std::pair<Incarnation, Mismatch>> mail;
  {
    const std::lock_guard lock(mail_mutex_);
    mail.swap(mail_);
  }
  for (const auto& [incarnation, mismatch] : mail) {
    coordinator_.on_mismatch(incarnation, mismatch, now_);
  }
}

void ServerLoop::expire() {
  if (listen_again_.is_set() && now_ >= listen_again_) {
    listen_again_ = Instant{};
    if (!poller_.add(listener_.fd(), kListenerToken)) listen_again_ = now_ + 100ms;
  }
  for (auto& [id, peer] : peers_) {
    if (now_ < peer.deadline || !peer.cause.empty()) continue;
    if (!peer.is_closing) ++counters_.timed_out;
    peer.cause = "connection closed";
  }
  if (now_ >= coordinator_.next_deadline()) coordinator_.on_timeout(now_);
}

void ServerLoop::flush(ConnectionId id, Peer& peer) {
  if (!peer.cause.empty()) return;
  bool wants_write = false;
  if (peer.tcp.queued_bytes() > 0) {
    const net::FlushVerdict verdict = peer.tcp.flush();
    if (verdict == net::FlushVerdict::kFailed) return hear_last_words(id, peer);
    wants_write = verdict == net::FlushVerdict::kPending;
  }
  if (peer.is_closing && !wants_write) ::shutdown(peer.tcp.fd(), SHUT_WR);
  if (wants_write == peer.wants_write) return;
  peer.wants_write = wants_write;
  (void)poller_.modify(peer.tcp.fd(), id.value,
                       wants_write ? net::Interest::kReadWrite : net::Interest::kRead);
}

/// A peer takes nothing any more. Why it has gone may be what it sent last, so that is read before
/// it is buried. A dead connection ends behind it; passes are bounded all the same.
void ServerLoop::hear_last_words(ConnectionId id, Peer& peer) {
  constexpr int kPassesMax = 64;
  const std::string cause = peer.tcp.failure_text();
  const bool is_member = peer.state == PeerState::kMember;
  for (int pass = 0; is_member && peer.cause.empty() && pass < kPassesMax; ++pass) {
    on_readable(id, peer);
  }
  peer.cause = cause;
}

/// Buries lost peers. The coordinator's answer may lose others, so it goes around until none is.
void ServerLoop::remove_lost() {
  for (;;) {
    const auto lost =
        std::ranges::find_if(peers_, [](const auto& entry) { return !entry.second.cause.empty(); });
    if (lost == peers_.end()) return;
    const ConnectionId id = lost->first;
    const bool is_member = lost->second.state == PeerState::kMember;
    const std::string cause = std::move(lost->second.cause);
    (void)poller_.remove(lost->second.tcp.fd());
    peers_.erase(lost);
    if (!is_member) continue;
    coordinator_.on_disconnected(id, cause, now_);
    for (auto& [other, peer] : peers_) flush(other, peer);
  }
}

void ServerLoop::say_farewell() {
  const Instant end = runtime::monotonic_now() + kFarewellTime;
  {
    const std::lock_guard lock(mutex_);
    if (!listen_again_.is_set()) (void)poller_.remove(listener_.fd());
    listen_again_ = Instant{};
    now_ = runtime::monotonic_now();
    coordinator_.on_shutdown();
    for (auto& [id, peer] : peers_) {
      start_closing(peer);
      flush(id, peer);
    }
    remove_lost();
  }
  while (!peers_.empty() && runtime::monotonic_now() < end) turn(end);
  const std::lock_guard lock(mutex_);
  for (auto& [id, peer] : peers_) peer.cause = "connection closed";
  remove_lost();
}

Incarnation ServerLoop::fresh_incarnation() {
  for (;;) {
    const Incarnation incarnation(static_cast<uint32_t>(auth::random_u64()));
    if (incarnation.value != 0 && !incarnations_.contains(incarnation)) return incarnation;
  }
}

void ServerLoop::send(std::span<const ConnectionId> connections, const ServerMessage& message) {
  const std::string body = encode(message);
  for (const ConnectionId connection : connections) {
    const auto found = peers_.find(connection);
    if (found == peers_.end()) continue;
    Peer& peer = found->second;
    if (peer.is_closing || !peer.cause.empty()) continue;
    if (peer.tcp.queue_frame(peer.seal.wrap(body)) != net::QueueVerdict::kQueued) {
      peer.cause = "it does not read what it is sent";
    }
  }
}

void ServerLoop::close(ConnectionId connection) {
  const auto found = peers_.find(connection);
  if (found != peers_.end()) start_closing(found->second);
}

void ServerLoop::job_started(const JobPlan& plan) {
  incarnations_.insert(plan.incarnation);
  observer_.job_started(plan);
}

void ServerLoop::group_opened(const GroupPlan& plan) { observer_.group_opened(plan); }

void ServerLoop::group_closed(Incarnation incarnation, GroupId group) {
  observer_.group_closed(incarnation, group);
}

void ServerLoop::job_ended(Incarnation incarnation) {
  incarnations_.erase(incarnation);
  observer_.job_ended(incarnation);
}

}  // namespace sumcast::control
