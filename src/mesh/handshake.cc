#include "mesh/handshake.h"

#include <algorithm>
#include <string_view>

#include "auth/derive.h"

namespace sumcast::mesh {
namespace {

constexpr std::string_view kLabel = "sumcast 1 mesh stream";

Error refusal(Answer answer, const std::string& peer) {
  switch (answer) {
    case Answer::kOtherJob:
      return {ErrorCode::kDenied, peer + " belongs to another start of the job"};
    case Answer::kOtherRank:
      return {ErrorCode::kDenied, peer + " says that it is another rank"};
    case Answer::kKeyNeeded:
      return {ErrorCode::kDenied, peer + " has a key and this rank has none"};
    case Answer::kNoKeyHere:
      return {ErrorCode::kDenied, peer + " has no key and this rank has one"};
    case Answer::kNotWanted:
      return {ErrorCode::kAborted, peer + " has aborted the group, or is leaving"};
    default:
      return {ErrorCode::kDenied, peer + " speaks another protocol"};
  }
}

/// Turns "the connection broke" into false and lets the rest through.
Result<bool> moved(const Result<void>& outcome, const std::string& peer) {
  if (outcome) return true;
  if (outcome.error().code == ErrorCode::kUnavailable) return false;
  if (outcome.error().code != ErrorCode::kTimeout) return fail(outcome.error());
  return fail(ErrorCode::kTimeout,
              peer + " took a connection but has not answered; it may not have started yet");
}

}  // namespace

auth::ControlSeal stream_seal(const auth::Key& job, const Hello& hello,
                              const auth::ControlNonce& host_nonce, auth::Side side) {
  constexpr size_t kNames = offsetof(Hello, nonce);
  std::array<std::byte, kLabel.size() + 1 + kNames> info{};
  std::ranges::copy(std::as_bytes(std::span(kLabel)), info.begin());
  std::ranges::copy(bytes_of(hello).first<kNames>(), info.end() - kNames);
  auth::Key key;
  auth::hkdf_sha256(job.bytes, {}, info, key.bytes);
  return {key, hello.nonce, host_nonce, side};
}

Result<bool> greet(net::TcpConnection& connection, Hello hello, const std::optional<auth::Key>& key,
                   const std::string& peer, Instant deadline) {
  hello.keyed = key ? 1 : 0;
  if (key) hello.nonce = auth::random_nonce();
  auto done = moved(connection.send_all(bytes_of(hello), deadline), peer);
  if (!done || !*done) return done;
  Reply reply;
  done = moved(connection.receive_all(writable_bytes_of(reply), deadline), peer);
  if (!done || !*done) return done;
  if (reply.answer != Answer::kWelcome) return fail(refusal(reply.answer, peer));
  if (!key) return true;
  auth::ControlSeal seal = stream_seal(*key, hello, reply.nonce, auth::Side::kClient);
  if (!seal.open(bytes_of(hello), reply.proof)) {
    return fail(ErrorCode::kDenied, peer + " holds another key");
  }
  const auth::SealTag proof = seal.seal(bytes_of(hello));
  return moved(connection.send_all(proof, deadline), peer);
}

}  // namespace sumcast::mesh
