#include "daemon/shard_thread.h"

#include <pthread.h>
#include <time.h>

#include <algorithm>
#include <utility>

#include "net/udp.h"
#include "numeric/environment.h"
#include "runtime/clock.h"

namespace sumcast::daemon {
namespace {

constexpr uint64_t kWakeToken = 0;
constexpr uint64_t kHostTokens = 1;  // ... and up: the shard's sockets.
constexpr Duration kPublishEvery = 100ms;
/// Of 64 KiB each, touched only when needed: what eight workers may have in flight, several times.
constexpr uint32_t kReceiveBuffers = 256;

struct Port {
  net::Endpoint endpoint;
  std::optional<std::string> buffer_advice;
};

/// A shard shares its port with one connected socket for each member, and so it must allow sharing;
/// but then the kernel lets a second daemon in as well, and both would get half of the datagrams.
/// Hence a first try without sharing, which fails if anybody is there.
Result<Port> claim_port(const net::Endpoint& listen, int socket_buffer_bytes) {
  net::UdpOptions options;
  options.local = listen;
  options.dual_stack = listen.family() == net::Family::kIpv6;
  options.receive_buffer_bytes = socket_buffer_bytes;
  auto socket = net::UdpSocket::open(options);
  if (!socket) return fail(std::move(socket.error()));
  return Port{socket->local(),
              net::receive_buffer_advice(socket_buffer_bytes, socket->receive_buffer_bytes())};
}

Duration thread_cpu() {
  timespec spent{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &spent);
  return std::chrono::seconds(spent.tv_sec) + Duration(spent.tv_nsec);
}

}  // namespace

Result<std::unique_ptr<ShardThread>> ShardThread::start(ShardThreadOptions options) {
  auto port = claim_port(options.listen, options.socket_buffer_bytes);
  if (!port) return fail(std::move(port.error()));
  auto poller = net::Poller::create();
  if (!poller) return fail(std::move(poller.error()));
  auto wake_up = net::WakeUp::create();
  if (!wake_up) return fail(std::move(wake_up.error()));
  auto agent =
      std::unique_ptr<ShardThread>(new ShardThread(std::move(*poller), std::move(*wake_up)));
  if (auto added = agent->poller_.add(agent->wake_up_.fd(), kWakeToken); !added) {
    return fail(std::move(added.error()));
  }
  collective::ShardHostOptions host;
  host.index = options.index;
  host.listen = port->endpoint;
  host.socket_per_member = true;
  host.multicast = options.multicast;
  host.socket_buffer_bytes = options.socket_buffer_bytes;
  host.receive_buffers = kReceiveBuffers;
  host.faults = options.faults;
  auto opened = collective::ShardHost::open(std::move(host), agent->poller_, kHostTokens);
  if (!opened) return fail(std::move(opened.error()));
  agent->host_ = std::move(*opened);
  agent->host_->set_mismatch_observer(std::move(options.on_mismatch));
  agent->poller_.set_spin(options.spin);
  agent->endpoint_ = agent->host_->endpoint();
  agent->buffer_advice_ = std::move(port->buffer_advice);

  std::promise<Result<void>> started;
  auto outcome = started.get_future();
  ShardThread& self = *agent;
  agent->thread_ = std::thread(
      [&self, promise = std::move(started)]() mutable { self.run(std::move(promise)); });
  ::pthread_setname_np(agent->thread_.native_handle(),
                       ("shard-" + std::to_string(options.index)).c_str());
  if (auto result = outcome.get(); !result) return fail(std::move(result.error()));
  return agent;
}

ShardThread::ShardThread(net::Poller poller, net::WakeUp wake_up)
    : poller_(std::move(poller)), wake_up_(std::move(wake_up)) {}

ShardThread::~ShardThread() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_up_.signal();
  if (thread_.joinable()) thread_.join();
}

void ShardThread::run(std::promise<Result<void>> started) {
  if (!numeric::float_environment_is_default()) {
    started.set_value(fail(ErrorCode::kUnsupported,
                           "this process flushes denormals to zero or rounds unusually, so its "
                           "sums would differ; look for a preloaded library that was built with "
                           "-ffast-math"));
    return;
  }
  started.set_value({});
  while (!has_stopped_) turn();
}

void ShardThread::turn() {
  std::array<net::Event, 64> events;
  Instant due = host_->next_deadline();
  if (is_unpublished_) due = std::min(due, next_publication_);
  const size_t count = poller_.wait(
      events, due == Instant::never() ? Duration::max() : due - runtime::monotonic_now());
  const Instant now = runtime::monotonic_now();
  for (const net::Event& event : std::span(events).first(count)) {
    if (event.token == kWakeToken) {
      wake_up_.drain();
      run_commands();
    } else {
      host_->receive(event.token, now);
    }
  }
  host_->on_timeout(now);
  host_->flush(now);

  const Instant end = runtime::monotonic_now();
  ++current_.cycles;
  current_.cycle_max = std::max(current_.cycle_max, end - now);
  if (end - now > kCycleOverrun) ++current_.cycles_overrun;
  // A turn in which only the publication was due is nothing to publish.
  if (count > 0 || due != next_publication_) is_unpublished_ = true;
  if (is_unpublished_ && end >= next_publication_) publish_now(end);
}

void ShardThread::run_commands() {
  std::vector<Command> commands;
  Ticket last;
  {
    const std::lock_guard lock(mutex_);
    commands.swap(commands_);
    last = posted_;
    has_stopped_ = stopping_;
  }
  for (const Command& command : commands) command(*host_);
  {
    const std::lock_guard lock(mutex_);
    done_ = last;
  }
  done_changed_.notify_all();
}

void ShardThread::publish_now(Instant now) {
  current_.shard = host_->counters();
  current_.socket_drops = drops_of_ended_jobs_ + host_->socket_drops();
  current_.cpu = thread_cpu();
  current_.waited_for = host_->waited_for();
  is_unpublished_ = false;
  next_publication_ = now + kPublishEvery;
  const std::lock_guard lock(mutex_);
  published_ = current_;
}

void ShardThread::end_job_now(collective::ShardHost& host, Incarnation incarnation) {
  const uint64_t before = host.socket_drops();
  host.end_job(incarnation);
  drops_of_ended_jobs_ += before - host.socket_drops();
}

ShardThread::Ticket ShardThread::post(Command command) {
  Ticket ticket;
  {
    const std::lock_guard lock(mutex_);
    commands_.push_back(std::move(command));
    ticket = ++posted_;
  }
  wake_up_.signal();
  return ticket;
}

ShardThread::Ticket ShardThread::start_job(const control::JobPlan& plan,
                                           const std::optional<auth::Key>& key) {
  return post([plan, key](collective::ShardHost& host) { host.start_job(plan, key); });
}

ShardThread::Ticket ShardThread::open_group(const control::GroupPlan& plan) {
  return post([plan](collective::ShardHost& host) { host.open_group(plan); });
}

ShardThread::Ticket ShardThread::close_group(Incarnation incarnation, GroupId group) {
  return post([=](collective::ShardHost& host) { host.close_group(incarnation, group); });
}

ShardThread::Ticket ShardThread::end_job(Incarnation incarnation) {
  return post([=, this](collective::ShardHost& host) { end_job_now(host, incarnation); });
}

ShardThread::Ticket ShardThread::publish() {
  return post([this](collective::ShardHost&) { publish_now(runtime::monotonic_now()); });
}

bool ShardThread::wait_until_done(Ticket ticket, Instant deadline) {
  std::unique_lock lock(mutex_);
  const Duration left = std::max<Duration>(0ns, deadline - runtime::monotonic_now());
  return done_changed_.wait_for(lock, left, [&] { return done_ >= ticket; });
}

ShardThreadReport ShardThread::report() const {
  const std::lock_guard lock(mutex_);
  return published_;
}

}  // namespace sumcast::daemon
