// Listening for results that a shard sends to all at once (P19). With its first operation over an
// aggregator a worker joins the job's multicast group and asks the shard to say something there; if
// it hears that, it says so, and results come that way from then on. Until then, and for ever where
// the network does not carry multicast, each comes by itself: nothing waits for the outcome.
#include <algorithm>

#include "collective/engine.h"
#include "collective/engine_state.h"

namespace sumcast::collective {
namespace {

constexpr Duration kTuneInterval = std::chrono::milliseconds(20);
constexpr Duration kTuneIntervalMax = std::chrono::milliseconds(320);
constexpr Duration kTuneStagger = std::chrono::milliseconds(1);
constexpr uint32_t kTuneRounds = 8;
constexpr Duration kDeafAfter = std::chrono::milliseconds(50);
constexpr uint32_t kDeafMin = 8;
constexpr uint32_t kDeafShare = 4;
constexpr uint32_t kLossEpoch = 512;  // Results.
constexpr uint32_t kLossShare = 8;

}  // namespace

void Engine::tune_in(Route route, Instant now) {
  tuned_in_[static_cast<size_t>(route)] = true;
  if (!options_.multicast) return;
  const bool direct = route == Route::kDirect;
  const auto& paths = routes_[static_cast<size_t>(route)];
  if (direct && !listen_to_members()) return;
  for (size_t i = 1; i <= paths.size(); ++i) {
    Path& path = *paths[(i + (direct ? rank_.value : 0)) % paths.size()];
    if (path.local || (!direct && !listen_to(path))) continue;
    // What one member asks for all others hear, and need not ask any more.
    path.tune_at = direct ? now + kTuneStagger * i : now;
  }
}

/// Several flows spread results over several sockets' buffers, on which windows count (P11): then
/// one socket for all of them is too few.
bool Engine::listen_to(Path& path) {
  if (options_.flows > 1) return false;
  auto socket = listener_at(multicast_group(incarnation_, path.to.port()));
  if (socket == nullptr || !add_listener(*socket, &path)) return false;
  path.listening = std::move(socket);
  return true;
}

bool Engine::listen_to_members() {
  if (!direct_group_ || routes_[static_cast<size_t>(Route::kDirect)].size() <= 2) return false;
  auto socket = listener_at(*direct_group_);
  if (socket == nullptr || !add_listener(*socket, nullptr)) return false;
  members_listening_ = std::move(socket);
  for (Path* path : routes_[static_cast<size_t>(Route::kDirect)]) {
    members_by_address_[path->to] = path;
  }
  return true;
}

/// A socket that has this multicast group's datagrams; nullptr if there is no way to it.
std::unique_ptr<net::UdpSocket> Engine::listener_at(const net::Endpoint& group) {
  const net::Endpoint interface = options_.local.unmapped();
  if (interface.family() != net::Family::kIpv4) return nullptr;
  net::UdpOptions udp;
  udp.local = group;
  udp.reuse_address = true;  // Other ranks of this host listen too.
  udp.receive_buffer_bytes = options_.socket_buffer_bytes;
  auto socket = net::UdpSocket::open(udp);
  if (!socket || !socket->join_group(interface)) return nullptr;
  return std::make_unique<net::UdpSocket>(std::move(*socket));
}

/// @param path  nullptr: of all members.
bool Engine::add_listener(const net::UdpSocket& socket, Path* path) {
  socket_paths_.emplace_back(path, kListening);
  if (poller_.add(socket.fd(), 1 + socket_paths_.size())) return true;
  socket_paths_.pop_back();
  return false;
}

/// Whose words to all these are: a multicast group takes datagrams from anybody, this process
/// included. @param path  of the one shard that is listened to; nullptr: of all members.
Engine::Path* Engine::heard_from(Path* path, const net::Endpoint& from) const {
  if (path != nullptr) return path->to == from ? path : nullptr;
  const auto found = members_by_address_.find(from);
  return found == members_by_address_.end() || found->second->local ? nullptr : found->second;
}

/// Asks again, or gives up.
void Engine::run_tuning(Path& path, Instant now) {
  if (path.tune_rounds == kTuneRounds) {
    path.tune_at = Instant::never();
    if (path.hears) return;  // The shard may know it, though its answers were lost.
    auto& socket = path.route == Route::kDirect ? members_listening_ : path.listening;
    const bool needed =
        path.route == Route::kDirect && std::ranges::any_of(paths_, [](const auto& other) {
          return other->route == Route::kDirect &&
                 (other->hears || other->tune_at != Instant::never());
        });
    if (needed || socket == nullptr) return;
    (void)poller_.remove(socket->fd());
    socket.reset();
    return;
  }
  // The test is as long as results can be; what was heard is told in few words.
  if (path.hears) {
    send_tuning(path, Tuning::kHeard, 0);
  } else {
    send_tuning(path, Tuning::kTest, datagram_bytes_);
  }
  path.tune_at = now + std::min(kTuneIntervalMax, kTuneInterval * (1 << path.tune_rounds));
  ++path.tune_rounds;
}

void Engine::send_tuning(Path& path, Tuning what, size_t datagram_bytes) {
  wire::Header header;
  header.kind = wire::Kind::kTuneIn;
  header.chunk = static_cast<uint32_t>(what);
  const size_t overhead = wire::kHeaderBytes + signer_->tag_bytes();
  const std::vector<std::byte> padding(std::max(datagram_bytes, overhead) - overhead);
  send_small(path, 0, header, padding);
}

void Engine::on_tuned(Path& path, const wire::Header& header, size_t datagram_bytes, Instant now) {
  if (path.tune_at == Instant::never()) return;
  if (header.chunk == static_cast<uint32_t>(Tuning::kHeard)) {
    path.tune_at = Instant::never();
    note_heard(path, now);
  } else if (!path.hears && datagram_bytes == datagram_bytes_) {
    path.hears = true;
    path.tune_rounds = 0;
    run_tuning(path, now);
  }
}

/// Anything heard will do, also what a repair was quicker to bring.
void Engine::note_heard(Path& path, Instant now) {
  path.last_heard_at = now;
  path.unheard = path.unheard_probed = 0;
}

/// A network may also carry some multicasts and drop others: switches limit their rate.
void Engine::note_audible_result(Path& path, bool heard, bool probed) {
  if (!heard) {
    ++path.unheard;
    path.unheard_probed += probed;
    path.audible_lost += probed;
  }
  if (++path.audible < kLossEpoch) return;
  if (path.audible_lost * kLossShare > path.audible) send_tuning(path, Tuning::kDeaf, 0);
  path.audible = path.audible_lost = 0;
}

/// A network may stop carrying multicast: switches forget who listens. Results that had to be asked
/// for, many of those that came at all, and nothing heard for a while, are what that looks like.
/// Asked at the end of a turn, when all sockets were read: a worker that only was slow has found
/// then what its buffers held.
void Engine::check_hearing(Path& path, Instant now) {
  if (path.unheard_probed < kDeafMin || path.unheard_probed * kDeafShare <= path.unheard) return;
  if (now - path.last_heard_at < kDeafAfter) return;
  path.unheard = path.unheard_probed = 0;
  send_tuning(path, Tuning::kDeaf, 0);  // If it is lost, there will be more to count.
}

}  // namespace sumcast::collective
