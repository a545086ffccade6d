// Threads, exchanges and their ends. What messages do is in messenger_traffic.cc, what becomes of
// groups in messenger_groups.cc.
#include "mesh/messenger.h"

#include <fmt/format.h>

#include <algorithm>

#include "net/descriptor.h"

namespace sumcast::mesh {
namespace {

constexpr uint64_t kWakeToken = 0;
constexpr size_t kStagingBytes = 64 << 10;
constexpr Duration kSleepMax = 200ms;

std::chrono::steady_clock::time_point steady(Instant at) {
  // On Linux steady_clock is CLOCK_MONOTONIC, as Instant is. Far ones would overflow inside wait.
  const Instant latest = net::monotonic_now() + std::chrono::hours(24);
  return std::chrono::steady_clock::time_point(std::chrono::nanoseconds(std::min(at, latest).ns));
}

}  // namespace

Result<std::unique_ptr<Messenger>> Messenger::create(Mesh& mesh, OnFailure on_failure,
                                                     OnMismatch on_mismatch, Duration notice) {
  auto poller = net::Poller::create();
  if (!poller) return fail(poller.error());
  auto wake = net::WakeUp::create();
  if (!wake) return fail(wake.error());
  std::unique_ptr<Messenger> made(new Messenger(mesh, std::move(on_failure), std::move(on_mismatch),
                                                notice, std::move(*poller), std::move(*wake)));
  if (auto added = made->poller_.add(made->wake_.fd(), kWakeToken); !added) {
    return fail(added.error());
  }
  mesh.set_message_host(
      {[self = made.get()](GroupId group, Rank peer) { return self->wants(group, peer); },
       [self = made.get()](GroupId group, Rank peer, std::shared_ptr<Stream> stream) {
         self->admit(group, peer, std::move(stream));
       }});
  return made;
}

Messenger::Messenger(Mesh& mesh, OnFailure on_failure, OnMismatch on_mismatch, Duration notice,
                     net::Poller poller, net::WakeUp wake)
    : mesh_(mesh),
      on_failure_(std::move(on_failure)),
      on_mismatch_(std::move(on_mismatch)),
      notice_(notice),
      poller_(std::move(poller)),
      wake_(std::move(wake)),
      staging_(kStagingBytes) {}

Messenger::~Messenger() {
  mesh_.set_message_host({});
  const Error reason{ErrorCode::kAborted, "this rank is leaving the job"};
  abort_all(reason);
  mesh_.abort_all(reason);  // Ends what the opener may be at.
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    wake_.signal();
    opener_wake_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
  if (opener_.joinable()) opener_.join();
}

Result<std::shared_ptr<Exchange>> Messenger::post(GroupId id, std::span<const Sending> sends,
                                                  std::span<const Receiving> receives,
                                                  Instant deadline, std::function<void()> on_done) {
  Lock lock(mutex_);
  if (all_aborted_) return fail(*all_aborted_);
  const auto found = groups_.find(id);
  if (found == groups_.end() || found->second.early_since) {
    return fail(ErrorCode::kAborted, fmt::format("group {} is not open on this rank", id.value));
  }
  Group& group = found->second;
  if (group.aborted) return fail(*group.aborted);
  if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  auto exchange = std::make_shared<Exchange>();
  exchange->group = id;
  exchange->posted_at = net::monotonic_now();
  exchange->notice_at = exchange->posted_at + notice_;
  exchange->left = static_cast<uint32_t>(sends.size() + receives.size());
  exchange->on_done = std::move(on_done);
  const bool is_next = exchanges_.empty() || deadline < exchanges_.begin()->first;
  exchange->deadline = exchanges_.emplace(deadline, exchange);
  if (is_next) wake_.signal();
  if (exchange->left == 0) finish(exchange, std::nullopt);
  // Receives first: what this rank sends may be answered at once.
  for (const Receiving& what : receives) {
    if (!exchange->done) post_receive(group, id, what, exchange);
  }
  for (const Sending& what : sends) {
    if (!exchange->done) post_send(id, group, what, exchange);
  }
  unlock_and_tell(lock);
  return exchange;
}

Result<void> Messenger::wait(Exchange& exchange, Instant deadline) {
  if (!exchange.done.load(std::memory_order_acquire)) {
    Lock lock(mutex_);
    while (!exchange.done && net::monotonic_now() < deadline) {
      exchange.changed.wait_until(lock, steady(deadline));
    }
    if (!exchange.done) give_up(exchange.deadline->second);
    unlock_and_tell(lock);
  }
  if (exchange.error) return fail(*exchange.error);
  return {};
}

void Messenger::run() {
  Lock lock(mutex_);
  std::array<net::Event, 64> events;
  while (!stopping_) {
    watch_channels();
    Instant until = net::monotonic_now() + kSleepMax;
    if (!exchanges_.empty()) until = std::min(until, exchanges_.begin()->first);
    const Duration patience = std::max(until - net::monotonic_now(), Duration{0});
    unlock_and_tell(lock);
    const size_t count = poller_.wait(events, patience);
    lock.lock();
    for (size_t i = 0; i < count; ++i) {
      if (events[i].token == kWakeToken) {
        wake_.drain();
        continue;
      }
      const auto found = channels_.find(events[i].token);
      if (found == channels_.end()) continue;
      const ChannelPtr channel = found->second;
      if (!channel->is_shut()) on_event(*channel, events[i]);
    }
    expire(net::monotonic_now());
    forget_early(net::monotonic_now());
    ask_about_late(net::monotonic_now());
  }
  unlock_and_tell(lock);
}

/// Brings the poller up to date; only this thread uses it.
void Messenger::watch_channels() {
  for (auto at = channels_.begin(); at != channels_.end();) {
    Channel& channel = *at->second;
    if (channel.is_shut()) {
      if (channel.watched) (void)poller_.remove(channel.fd());
      at = channels_.erase(at);
      continue;
    }
    const bool for_write = channel.has_queued();
    const auto interest = for_write ? net::Interest::kReadWrite : net::Interest::kRead;
    if (!channel.watched) {
      channel.watched = poller_.add(channel.fd(), at->first, interest).has_value();
    } else if (for_write != channel.watched_for_write) {
      (void)poller_.modify(channel.fd(), at->first, interest);
    }
    channel.watched_for_write = for_write;
    ++at;
  }
}

void Messenger::on_event(Channel& channel, const net::Event& event) {
  if (event.writable) flush(channel);
  if (!event.readable && !event.failed) return;
  if (channel.is_shut()) return;
  if (const int error = channel.receive(*this, staging_); error != 0) on_broken(channel, error);
}

/// Opens streams, one after the other: each takes a round trip or two.
void Messenger::run_opener() {
  Lock lock(mutex_);
  while (!stopping_) {
    if (to_open_.empty()) {
      opener_wake_.wait(lock);
      continue;
    }
    const auto [id, peer, deadline] = to_open_.front();
    to_open_.pop_front();
    lock.unlock();
    auto stream = mesh_.stream(id, peer, kMessageLane, deadline);
    lock.lock();
    const auto found = groups_.find(id);
    if (found == groups_.end() || found->second.aborted || all_aborted_) continue;
    Outlet& outlet = found->second.outlets[peer];
    outlet.opening = false;
    if (!stream) {
      refuse_waiting(outlet, stream.error());
    } else {
      outlet.channel = add_channel(id, peer, true, std::move(*stream));
      send_expected(outlet);
      while (!outlet.waiting.empty() && !outlet.channel->is_shut()) {
        const Outgoing next = std::move(outlet.waiting.front());
        outlet.waiting.pop_front();
        if (!next.owner->done) transmit(outlet, next.what, next.owner);
      }
    }
    unlock_and_tell(lock);
    lock.lock();
  }
}

Messenger::ChannelPtr Messenger::add_channel(GroupId group, Rank peer, bool outgoing,
                                             std::shared_ptr<Stream> stream) {
  auto channel = std::make_shared<Channel>(group, peer, outgoing, std::move(stream));
  channels_.emplace(next_token_++, channel);
  wake_.signal();
  return channel;
}

void Messenger::expire(Instant now) {
  while (!exchanges_.empty() && exchanges_.begin()->first <= now) {
    give_up(ExchangePtr(exchanges_.begin()->second));
  }
}

/// The exchange's time is over.
void Messenger::give_up(const ExchangePtr& exchange) {
  const ExchangePtr keep = exchange;
  Group& group = groups_.at(keep->group);
  const Error why = keep->suspicion.value_or(
      Error{ErrorCode::kTimeout, "timed out: " + missing_text(group, keep)});
  if (keep->committed == 0) {
    group.board.withdraw(*keep);
    finish(keep, why);
  } else {
    fail_group(keep->group, why);
    finish(keep, why);
  }
}

/// Which peers an exchange still waits for.
std::string Messenger::missing_text(const Group& group, const ExchangePtr& exchange) const {
  std::set<std::string> senders, receivers;
  const auto note = [&](const ReceivePtr& receive) {
    if (receive->owner != exchange) return;
    senders.insert(receive->what.from ? mesh_.name_of(*receive->what.from) : "any rank");
  };
  group.board.each_receive(note);
  for (const auto& [key, receive] : group.ready) note(receive);
  for (const auto& [rank, outlet] : group.outlets) {
    const auto mine = [&](const auto& entry) { return entry.owner == exchange; };
    if (std::ranges::any_of(outlet.waiting, mine) ||
        std::ranges::any_of(outlet.announced, [&](const auto& e) { return mine(e.second); })) {
      receivers.insert(mesh_.name_of(rank));
    }
  }
  std::string text;
  if (!senders.empty()) text += fmt::format("nothing came from {}", fmt::join(senders, ", "));
  if (!senders.empty() && !receivers.empty()) text += ", and ";
  if (!receivers.empty()) text += fmt::format("{} did not receive", fmt::join(receivers, ", "));
  return text.empty() ? "a peer stopped in the middle of a message" : text;
}

void Messenger::finish(const ExchangePtr& exchange, std::optional<Error> error) {
  if (exchange->done) return;
  const ExchangePtr keep = exchange;
  exchanges_.erase(keep->deadline);
  keep->error = std::move(error);
  if (keep->on_done) to_tell_.push_back(std::move(keep->on_done));
  keep->done.store(true, std::memory_order_release);
  keep->changed.notify_all();
}

/// Calls back those whose exchanges have ended.
void Messenger::unlock_and_tell(Lock& lock) {
  const auto callbacks = std::exchange(to_tell_, {});
  const auto failures = std::exchange(failures_, {});
  lock.unlock();
  for (const Failure& failure : failures) {
    if (on_failure_) on_failure_(failure.group, failure.error);
  }
  for (const auto& callback : callbacks) callback();
}

}  // namespace sumcast::mesh
