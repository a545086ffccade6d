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
constexpr uint32_t kTuneRounds = 8;
constexpr Duration kDeafAfter = std::chrono::milliseconds(50);
constexpr uint32_t kDeafMin = 8;
constexpr uint32_t kDeafShare = 4;

}  // namespace

/// Several flows spread results over several sockets' buffers, on which windows count (P11): then
/// one socket for all of them is too few.
void Engine::tune_in(Instant now) {
  tuned_in_ = true;
  if (!options_.multicast || options_.flows > 1) return;
  const net::Endpoint interface = options_.local.unmapped();
  if (interface.family() != net::Family::kIpv4) return;
  for (Path* path : routes_[static_cast<size_t>(Route::kAggregator)]) {
    net::UdpOptions udp;
    udp.local = multicast_group(incarnation_, path->to.port());
    udp.reuse_address = true;  // Other ranks of this host listen too.
    udp.receive_buffer_bytes = options_.socket_buffer_bytes;
    auto socket = net::UdpSocket::open(udp);
    if (!socket || !socket->join_group(interface)) continue;
    socket_paths_.emplace_back(path, kListening);
    if (!poller_.add(socket->fd(), 1 + socket_paths_.size())) {
      socket_paths_.pop_back();
      continue;
    }
    path->listening = std::make_unique<net::UdpSocket>(std::move(*socket));
    path->tune_at = now;
  }
}

/// Asks again, or gives up.
void Engine::run_tuning(Path& path, Instant now) {
  if (path.tune_rounds == kTuneRounds) {
    path.tune_at = Instant::never();
    (void)poller_.remove(path.listening->fd());
    path.listening.reset();
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
    path.tuned = true;
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
