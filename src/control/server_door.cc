// How a peer comes in: accept, hello, proof, and what happens to its frames then.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>

#include "auth/derive.h"
#include "control/server_loop.h"

namespace sumcast::control {

namespace {

constexpr Duration kClosingTime = 1s;
constexpr Duration kAcceptPause = 100ms;
/// Members must be served between the newcomers of a flood.
constexpr int kAcceptsPerTurn = 64;

}  // namespace

void ServerLoop::accept_all() {
  for (int i = 0; i < kAcceptsPerTurn; ++i) {
    auto accepted = listener_.accept();
    if (!accepted) {
      // Out of descriptors: the peer stays in the backlog, and we look again in a moment.
      listen_again_ = now_ + kAcceptPause;
      (void)poller_.remove(listener_.fd());
      return;
    }
    if (!*accepted) return;
    ++counters_.accepted;
    make_room();
    if (peers_.size() < options_.connections_max) {
      greet(std::move(**accepted));
    } else {
      ++counters_.crowded_out;
    }
  }
}

/// The oldest stranger gives way: an honest peer proves itself within milliseconds.
void ServerLoop::make_room() {
  uint32_t strangers = 0;
  Peer* oldest = nullptr;
  for (auto& [id, peer] : peers_) {
    if (peer.state == PeerState::kMember || !peer.cause.empty()) continue;
    if (++strangers == 1) oldest = &peer;
  }
  if (strangers < options_.strangers_max) return;
  ++counters_.crowded_out;
  oldest->cause = "made room for others";
}

void ServerLoop::greet(net::TcpConnection connection) {
  const ConnectionId id(++last_id_);
  Peer& peer = peers_.emplace(id, Peer(std::move(connection))).first->second;
  peer.nonce = auth::random_nonce();
  peer.deadline = now_ + options_.stranger_time;
  const std::string hello =
      encode(ServerHello{kProtocol, nonce_text(peer.nonce), options_.key.has_value()});
  peer.tcp.queue_frame(std::as_bytes(std::span(hello)));
  if (!poller_.add(peer.tcp.fd(), id.value)) peer.cause = "cannot be polled";
}

void ServerLoop::on_readable(ConnectionId id, Peer& peer) {
  if (!peer.cause.empty()) return;
  const net::ReadVerdict verdict = peer.tcp.read_frames(
      [&](std::span<const std::byte> frame) { return on_frame(id, peer, frame); });
  if (peer.first) admit(id, peer);
  switch (verdict) {
    case net::ReadVerdict::kOpen:
    case net::ReadVerdict::kStopped:
      return;
    case net::ReadVerdict::kEnded:
      peer.cause = "connection closed";
      return;
    case net::ReadVerdict::kTooLong:
      if (peer.state != PeerState::kMember) ++counters_.wrong_hello;
      [[fallthrough]];
    case net::ReadVerdict::kFailed:
      peer.cause = peer.tcp.failure_text();
      return;
  }
}

/// Returns whether to go on reading; reading stops where the peer becomes a member.
bool ServerLoop::on_frame(ConnectionId id, Peer& peer, std::span<const std::byte> frame) {
  if (peer.is_closing) return true;  // Read to nowhere, so that it can see our end.
  switch (peer.state) {
    case PeerState::kHello:
      on_hello(peer, frame);
      break;
    case PeerState::kProving:
      on_proof(peer, frame);
      break;
    case PeerState::kMember:
      on_member_frame(id, peer, frame);
      break;
  }
  return !peer.first;
}

/// Whoever differs in version or in sealing closes by itself, having seen our hello.
void ServerLoop::on_hello(Peer& peer, std::span<const std::byte> frame) {
  const auto hello = decode_client_hello(*FrameSeal().unwrap(frame));
  const auto nonce = hello ? nonce_from_text(hello->nonce) : std::nullopt;
  if (!nonce || hello->protocol != kProtocol || hello->sealed != options_.key.has_value()) {
    ++counters_.wrong_hello;
    return start_closing(peer);
  }
  if (options_.key) {
    peer.seal =
        FrameSeal(auth::ControlSeal(*options_.key, *nonce, peer.nonce, auth::Side::kServer));
  }
  peer.state = PeerState::kProving;
}

void ServerLoop::on_proof(Peer& peer, std::span<const std::byte> frame) {
  const auto body = peer.seal.unwrap(frame);
  if (!body) {
    // Sealed with our key, this answer does not open at the other end either, which says it all.
    ++counters_.wrong_key;
    peer.tcp.queue_frame(
        peer.seal.wrap(encode(Refused{"", ErrorCode::kDenied, "the keys differ"})));
    return start_closing(peer);
  }
  auto message = decode_client_message(*body);
  if (!message) {
    ++counters_.malformed;
    peer.tcp.queue_frame(
        peer.seal.wrap(encode(Refused{"", message.error().code, message.error().what})));
    return start_closing(peer);
  }
  peer.first = std::move(*message);
}

/// The peer has proved itself: it may send long frames now. The limit belongs to the connection, so
/// the socket moves to a new one; nothing is lost, because an honest peer waits for our answer.
void ServerLoop::admit(ConnectionId id, Peer& peer) {
  const ClientMessage first = std::move(*peer.first);
  peer.first.reset();
  net::FileDescriptor again(::fcntl(peer.tcp.fd(), F_DUPFD_CLOEXEC, 0));
  if (peer.tcp.queued_bytes() > 0 || !again.is_open()) {
    peer.cause = "cannot be admitted";
    return;
  }
  (void)poller_.remove(peer.tcp.fd());
  auto connection = net::TcpConnection::adopt(std::move(again), member_tcp_options());
  if (!connection) {
    peer.cause = connection.error().what;
    return;
  }
  peer.tcp = std::move(*connection);
  if (!poller_.add(peer.tcp.fd(), id.value)) {
    peer.cause = "cannot be polled";
    return;
  }
  ++counters_.authenticated;
  peer.state = PeerState::kMember;
  peer.deadline = Instant::never();
  coordinator_.on_connected(id, peer.tcp.remote().address_text(), now_);
  coordinator_.on_message(id, first, now_);
}

void ServerLoop::on_member_frame(ConnectionId id, Peer& peer, std::span<const std::byte> frame) {
  if (!peer.cause.empty()) return;
  const auto body = peer.seal.unwrap(frame);
  if (!body) {
    ++counters_.malformed;
    peer.cause = "it sent a frame that does not open under the key";
    return;
  }
  const auto message = decode_client_message(*body);
  if (!message) {
    ++counters_.malformed;
    peer.cause = "it sent " + message.error().what;
    return;
  }
  coordinator_.on_message(id, *message, now_);
}

void ServerLoop::start_closing(Peer& peer) {
  if (peer.is_closing) return;
  peer.is_closing = true;
  peer.deadline = now_ + kClosingTime;
}

}  // namespace sumcast::control
