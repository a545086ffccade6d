#include "mesh/mesh.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/assert.h"
#include "mesh/message.h"

namespace sumcast::mesh {
namespace {

// connect() cannot be interrupted, so a host that does not answer is asked anew this often; an
// abort is noticed in between.
constexpr Duration kConnectSlice = 500ms;
// Ten tries over about six seconds outlast a crowd of strangers at a peer's door.
constexpr int kGreetTriesMax = 10;
constexpr Duration kGreetPauseFirst = 20ms;
constexpr Duration kGreetPauseMax = 1s;

std::chrono::steady_clock::time_point steady(Instant at) {
  // On Linux steady_clock is CLOCK_MONOTONIC, as Instant is.
  return std::chrono::steady_clock::time_point(std::chrono::nanoseconds(at.ns));
}

}  // namespace

Result<std::unique_ptr<Mesh>> Mesh::open(const net::Endpoint& local, std::optional<auth::Key> key) {
  auto listener = net::TcpListener::open(local);
  if (!listener) return fail(listener.error().within("cannot listen for streams of peers"));
  std::unique_ptr<Mesh> mesh(new Mesh());
  mesh->local_ = local;
  mesh->key_ = key;
  auto door = Door::open(
      std::move(*listener), std::move(key),
      [self = mesh.get()](const Hello& hello) { return self->wants(hello); },
      [self = mesh.get()](const Hello& hello, net::TcpConnection connection) {
        self->admit(hello, std::move(connection));
      });
  if (!door) return fail(door.error());
  mesh->door_ = std::move(*door);
  return mesh;
}

Mesh::~Mesh() {
  abort_all();
  door_.reset();
}

void Mesh::start(Incarnation incarnation, Rank me, std::vector<net::Endpoint> peers) {
  SUMCAST_ASSERT(peers_.empty());
  SUMCAST_ASSERT(me.value < peers.size());
  incarnation_ = incarnation;
  me_ = me;
  peers_ = std::move(peers);
  door_->start({incarnation, me});
}

void Mesh::set_message_host(MessageHost host) {
  std::lock_guard lock(host_mutex_);
  message_host_ = std::move(host);
}

std::string Mesh::name_of(Rank rank) const {
  SUMCAST_ASSERT(rank.value < peers_.size());
  return fmt::format("rank {} at {}", rank.value, peers_[rank.value].text());
}

Result<std::shared_ptr<Stream>> Mesh::stream(GroupId group, Rank peer, uint8_t lane,
                                             Instant deadline) {
  SUMCAST_ASSERT(peer != me_ && peer.value < peers_.size());
  const StreamKey key{group, peer, lane};
  Lock lock(mutex_);
  for (;;) {
    if (auto reason = aborted_locked(group)) return fail(std::move(*reason));
    const auto found = places_.find(key);
    const bool opening = found != places_.end() && found->second.opening;
    if (found != places_.end() && !opening) return found->second.stream;
    if ((me_ < peer || lane == kMessageLane) && !opening) return connect(key, deadline, lock);
    if (net::monotonic_now() >= deadline) {
      return fail(ErrorCode::kTimeout,
                  fmt::format("{} has not opened a stream for group {}: it has not called this "
                              "collective yet, or cannot reach {}",
                              name_of(peer), group.value, peers_[me_.value].text()));
    }
    if (deadline == Instant::never()) {
      changed_.wait(lock);
    } else {
      changed_.wait_until(lock, steady(deadline));
    }
  }
}

/// Opens a stream, trying again where the peer was too busy to answer. Entered and left with `lock`
/// held; it is released while waiting.
Result<std::shared_ptr<Stream>> Mesh::connect(const StreamKey& key, Instant deadline, Lock& lock) {
  places_[key] = Place{nullptr, true};
  Duration span = kGreetPauseFirst;
  Result<std::shared_ptr<Stream>> made = nullptr;
  for (int i = 0; i < kGreetTriesMax; ++i) {
    made = attempt(key, deadline, lock);
    if (!made || *made) break;
    const Duration left = std::max(deadline - net::monotonic_now(), Duration{0});
    const auto paused = pause(key.group, std::min(span, left), lock);
    if (!paused) made = fail(paused.error());
    if (!paused || span >= left) break;
    span = std::min(2 * span, kGreetPauseMax);
  }
  if (made && !*made) {
    made = fail(ErrorCode::kUnavailable,
                name_of(key.peer) +
                    " closes connections without a word; is it a rank of this job, "
                    "and do its key and version agree?");
  }
  if (made) {
    places_[key] = Place{*made, false};
  } else {
    places_.erase(key);
  }
  changed_.notify_all();
  return made;
}

/// Connects in slices, so that an abort is noticed. Called without the lock.
Result<net::TcpConnection> Mesh::reach(const StreamKey& key, Instant deadline) const {
  std::optional<net::Endpoint> from;
  if (!local_.is_wildcard()) from = local_.with_port(0);
  for (;;) {
    const Instant now = net::monotonic_now();
    const Instant until = deadline - now > kConnectSlice ? now + kConnectSlice : deadline;
    auto connection = net::connect_tcp(peers_[key.peer.value], from, until);
    if (connection) return connection;
    if (auto reason = aborted(key.group)) return fail(std::move(*reason));
    if (connection.error().code == ErrorCode::kTimeout && until < deadline) continue;
    return fail(connection.error().within(fmt::format("rank {}", key.peer.value)));
  }
}

/// One try; nullptr if the peer closed without an answer. As with connect(), `lock` is released
/// while waiting.
Result<std::shared_ptr<Stream>> Mesh::attempt(const StreamKey& key, Instant deadline, Lock& lock) {
  lock.unlock();
  auto connection = reach(key, deadline);
  if (!connection) {
    lock.lock();
    return fail(connection.error());
  }
  const std::string peer = name_of(key.peer);
  auto stream = std::make_shared<Stream>(std::move(*connection), peer);
  lock.lock();
  if (auto reason = aborted_locked(key.group)) return fail(std::move(*reason));
  places_[key].stream = stream;  // From here on an abort ends the handshake.
  lock.unlock();
  Hello hello;
  hello.incarnation = incarnation_;
  hello.from = me_;
  hello.to = key.peer;
  hello.group = key.group;
  hello.lane = key.lane;
  Result<bool> greeted = greet(stream->connection(), hello, key_, peer, deadline);
  Result<void> ready = greeted && *greeted ? stream->become_blocking() : Result<void>();
  lock.lock();
  if (auto reason = aborted_locked(key.group)) return fail(std::move(*reason));
  places_[key] = Place{nullptr, true};
  if (!greeted) return fail(greeted.error());
  if (!ready) return fail(ready.error());
  if (!*greeted) return nullptr;
  return stream;
}

/// Waits unless the group is aborted meanwhile.
Result<void> Mesh::pause(GroupId group, Duration span, Lock& lock) {
  const bool stop = changed_.wait_until(lock, steady(net::monotonic_now() + span),
                                        [&] { return aborted_locked(group).has_value(); });
  if (stop) return fail(*aborted_locked(group));
  return {};
}

bool Mesh::wants(const Hello& hello) const {
  if (hello.lane == kMessageLane) {
    std::lock_guard lock(host_mutex_);
    if (!message_host_.wants || hello.from.value >= peers_.size()) return false;
    if (!message_host_.wants(hello.group, hello.from)) return false;
  }
  std::lock_guard lock(mutex_);
  return hello.from.value < peers_.size() && !aborted_locked(hello.group) &&
         places_.size() < kStreamsMax;
}

void Mesh::admit(const Hello& hello, net::TcpConnection connection) {
  auto stream = std::make_shared<Stream>(std::move(connection), name_of(hello.from));
  if (hello.lane == kMessageLane) {
    std::lock_guard lock(host_mutex_);
    if (message_host_.admit) message_host_.admit(hello.group, hello.from, std::move(stream));
    return;
  }
  if (!stream->become_blocking()) return;
  std::lock_guard lock(mutex_);
  if (aborted_locked(hello.group)) return;
  Place& place = places_[{hello.group, hello.from, hello.lane}];
  // A second stream of one name: the peer gave the first one up.
  if (place.stream) place.stream->shut();
  place = Place{std::move(stream), false};
  changed_.notify_all();
}

std::optional<Error> Mesh::aborted_locked(GroupId group) const {
  const auto found = aborted_.find(group);
  if (found != aborted_.end()) return found->second;
  return all_aborted_;
}

std::optional<Error> Mesh::aborted(GroupId group) const {
  std::lock_guard lock(mutex_);
  return aborted_locked(group);
}

std::optional<Error> Mesh::await_reason(GroupId group, Instant until) {
  Lock lock(mutex_);
  if (auto known = aborted_locked(group)) return known;
  shut_group_locked(group);
  changed_.wait_until(lock, steady(until), [&] { return aborted_locked(group).has_value(); });
  return aborted_locked(group);
}

void Mesh::shut_group_locked(GroupId group) {
  auto at = places_.lower_bound({group, Rank(0), 0});
  while (at != places_.end() && at->first.group == group) {
    if (at->second.stream) at->second.stream->shut();
    // A place that is being opened belongs to the thread that opens it.
    at = at->second.opening ? std::next(at) : places_.erase(at);
  }
  changed_.notify_all();
}

void Mesh::abort(GroupId group, const Error& reason) {
  std::lock_guard lock(mutex_);
  aborted_.emplace(group, reason);
  shut_group_locked(group);
}

void Mesh::abort_all(const Error& reason) {
  std::lock_guard lock(mutex_);
  if (!all_aborted_) all_aborted_ = reason;
  for (auto& [key, place] : places_) {
    if (place.stream) place.stream->shut();
  }
  std::erase_if(places_, [](const auto& entry) { return !entry.second.opening; });
  changed_.notify_all();
}

void Mesh::close_group(GroupId group) {
  std::lock_guard lock(mutex_);
  aborted_.erase(group);
  shut_group_locked(group);
}

}  // namespace sumcast::mesh
