#include "mesh/door.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "auth/derive.h"
#include "mesh/message.h"

namespace sumcast::mesh {
namespace {

constexpr uint64_t kWakeToken = 0;
constexpr uint64_t kListenerToken = 1;
constexpr Duration kShortagePause = 100ms;  // Until descriptors may be free again.

}  // namespace

Result<std::unique_ptr<Door>> Door::open(net::TcpListener listener, std::optional<auth::Key> key,
                                         Wants wants, Admit admit) {
  auto poller = net::Poller::create();
  if (!poller) return fail(poller.error());
  auto wake = net::WakeUp::create();
  if (!wake) return fail(wake.error());
  if (auto added = poller->add(wake->fd(), kWakeToken); !added) return fail(added.error());
  return std::unique_ptr<Door>(new Door(std::move(listener), std::move(key), std::move(*poller),
                                        std::move(*wake), std::move(wants), std::move(admit)));
}

Door::Door(net::TcpListener listener, std::optional<auth::Key> key, net::Poller poller,
           net::WakeUp wake, Wants wants, Admit admit)
    : listener_(std::move(listener)),
      key_(std::move(key)),
      poller_(std::move(poller)),
      wake_(std::move(wake)),
      wants_(std::move(wants)),
      admit_(std::move(admit)),
      thread_([this] { run(); }) {}

Door::~Door() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.signal();
  thread_.join();
}

void Door::start(const HostIdentity& identity) {
  {
    std::lock_guard lock(mutex_);
    order_ = identity;
  }
  wake_.signal();
}

void Door::run() {
  std::array<net::Event, 64> events;
  while (!stopped_) {
    const size_t count = poller_.wait(events, patience(net::monotonic_now()));
    const Instant now = net::monotonic_now();
    for (size_t i = 0; i < count; ++i) {
      if (events[i].token == kWakeToken) {
        take_orders();
      } else if (events[i].token == kListenerToken) {
        accept_all(now);
      } else {
        on_readable(events[i].token);
      }
    }
    expire(now);
  }
}

void Door::take_orders() {
  wake_.drain();
  std::lock_guard lock(mutex_);
  stopped_ = stopping_;
  if (!order_ || identity_) return;
  identity_ = order_;
  // If the listener cannot be watched now, expire() tries again.
  if (!poller_.add(listener_.fd(), kListenerToken)) {
    accept_again_ = net::monotonic_now() + kShortagePause;
  }
}

void Door::accept_all(Instant now) {
  for (;;) {
    auto next = listener_.accept();
    if (!next) {  // Out of descriptors: strangers go first, then wait for somebody to close some.
      if (!knocks_.empty()) drop(knocks_.begin());
      if (poller_.remove(listener_.fd())) accept_again_ = now + kShortagePause;
      return;
    }
    if (!*next) return;
    if (knocks_.size() == kKnocksMax) drop(knocks_.begin());
    const uint64_t token = next_token_++;
    if (!poller_.add((*next)->fd(), token)) continue;  // Closes it.
    knocks_.push_back(Knock{token, std::move(**next), now + kKnockPatience, {}, {}, {}, 0});
  }
}

void Door::on_readable(uint64_t token) {
  const auto knock =
      std::ranges::find_if(knocks_, [&](const Knock& one) { return one.token == token; });
  if (knock == knocks_.end()) return;  // Dropped earlier in this batch of events.
  const Step step = advance(*knock);
  if (step == Step::kWait) return;
  static_cast<void>(poller_.remove(knock->connection.fd()));
  if (step == Step::kAdmitted) admit_(knock->hello, std::move(knock->connection));
  knocks_.erase(knock);
}

void Door::drop(Knocks::iterator knock) {
  static_cast<void>(poller_.remove(knock->connection.fd()));
  knocks_.erase(knock);
}

void Door::expire(Instant now) {
  while (!knocks_.empty() && knocks_.front().deadline <= now) drop(knocks_.begin());
  if (!accept_again_.is_set() || accept_again_ > now) return;
  const bool watched = poller_.add(listener_.fd(), kListenerToken).has_value();
  accept_again_ = watched ? Instant{} : now + kShortagePause;
}

Duration Door::patience(Instant now) const {
  Instant next = Instant::never();
  if (!knocks_.empty()) next = knocks_.front().deadline;
  if (accept_again_.is_set()) next = std::min(next, accept_again_);
  if (next == Instant::never()) return Duration::max();
  return std::max(next - now, Duration{1});
}

/// Reads what the peer has sent of the message that is due, never past its end: what follows the
/// handshake is for the stream's user.
Door::Step Door::advance(Knock& knock) {
  const size_t due = knock.seal ? auth::kSealBytes : sizeof(Hello);
  const ssize_t got =
      ::recv(knock.connection.fd(), knock.bytes.data() + knock.got, due - knock.got, MSG_DONTWAIT);
  if (got < 0) {
    const bool transient = errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
    return transient ? Step::kWait : Step::kGone;
  }
  if (got == 0) return Step::kGone;
  knock.got += static_cast<size_t>(got);
  if (knock.got < due) return Step::kWait;
  knock.got = 0;
  if (!knock.seal) return on_hello(knock);
  const std::span<const std::byte, auth::kSealBytes> proof(knock.bytes.data(), auth::kSealBytes);
  return knock.seal->open(bytes_of(knock.hello), proof) ? Step::kAdmitted : Step::kGone;
}

Door::Step Door::on_hello(Knock& knock) {
  std::memcpy(&knock.hello, knock.bytes.data(), sizeof(Hello));
  if (knock.hello.magic != kHelloMagic) return Step::kGone;
  Reply reply;
  reply.answer = judge(knock.hello);
  const bool welcome = reply.answer == Answer::kWelcome;
  if (welcome && key_) {
    reply.nonce = auth::random_nonce();
    knock.seal = stream_seal(*key_, knock.hello, reply.nonce, auth::Side::kServer);
    reply.proof = knock.seal->seal(bytes_of(knock.hello));
  }
  // The send buffer of a new connection is empty, so a reply that does not fit means trouble.
  const ssize_t sent =
      ::send(knock.connection.fd(), &reply, sizeof reply, MSG_DONTWAIT | MSG_NOSIGNAL);
  if (!welcome || sent != static_cast<ssize_t>(sizeof reply)) return Step::kGone;
  return key_ ? Step::kWait : Step::kAdmitted;
}

Answer Door::judge(const Hello& hello) const {
  if (hello.incarnation != identity_->incarnation) return Answer::kOtherJob;
  const bool in_order = hello.lane == kMessageLane ? hello.from != hello.to : hello.from < hello.to;
  if (hello.to != identity_->me || !in_order) return Answer::kOtherRank;
  if (key_ && hello.keyed == 0) return Answer::kKeyNeeded;
  if (!key_ && hello.keyed != 0) return Answer::kNoKeyHere;
  return wants_(hello) ? Answer::kWelcome : Answer::kNotWanted;
}

}  // namespace sumcast::mesh
