// Who is at the other end of a new stream: three messages, once per connection.
//
//   opener -> host   hello   48 bytes   which stream of which job, and a random nonce
//   host -> opener   reply   49 bytes   yes or why not, a nonce, proof of the key
//   opener -> host   proof   16 bytes   (jobs with a key only)
//
// Each side's nonce is a challenge to the other. The key of the proofs is derived by HKDF from the
// job's key and all that the hello names (purpose, incarnation, both ranks, group, lane), so a
// proof is good for this stream of this start of the job and for nothing else. Jobs without a key
// exchange the names only: that keeps out accidents, not people.
//
// After the handshake the stream carries bare bytes: who can change packets in flight can change a
// baseline's sums. (The datagrams of in-network and direct are tagged one by one.)
//
// Numbers are little endian, as hosts are throughout (docs/numerics.md).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <type_traits>

#include "auth/control_seal.h"
#include "auth/secret.h"
#include "base/ids.h"
#include "base/result.h"
#include "base/time.h"
#include "net/tcp.h"

namespace sumcast::mesh {

/// Tells our peers from anything else that may connect, and this version from others.
inline constexpr uint32_t kHelloMagic = 0x324D4353;  // "SCM2"

/// The first bytes on a stream. As on the wire; the opener has the lower rank, but for streams of
/// messages, which their sender opens.
struct Hello {
  uint32_t magic = kHelloMagic;
  Incarnation incarnation;  ///< So that ranks of an earlier start of the job stay out.
  Rank from;                ///< Who opens.
  Rank to;                  ///< Whom the opener believes to have reached.
  GroupId group;
  uint8_t lane = 0;
  uint8_t keyed = 0;           ///< 1 if the opener has a key, and a proof follows.
  auth::ControlNonce nonce{};  ///< The opener's; zero without a key.
};
static_assert(sizeof(Hello) == 48 && std::has_unique_object_representations_v<Hello>);
static_assert(offsetof(Hello, nonce) == 16);

/// Values travel on the wire.
enum class Answer : uint8_t {
  kWelcome = 1,
  kOtherJob = 2,   ///< Another incarnation.
  kOtherRank = 3,  ///< The hello names another rank than the one reached, or breaks the order.
  kKeyNeeded = 4,  ///< The host has a key, the opener has none.
  kNoKeyHere = 5,  ///< The reverse.
  kNotWanted = 6,  ///< The group was aborted, or the host is leaving or full.
};

struct Reply {
  auth::ControlNonce nonce{};  ///< The host's; zero without a key.
  auth::SealTag proof{};       ///< Of the hello; zero without a key.
  Answer answer = Answer::kNotWanted;
};
static_assert(sizeof(Reply) == 49 && std::has_unique_object_representations_v<Reply>);

template <typename Message>
std::span<const std::byte, sizeof(Message)> bytes_of(const Message& message) {
  return std::as_bytes(std::span<const Message, 1>(&message, 1));
}
template <typename Message>
std::span<std::byte, sizeof(Message)> writable_bytes_of(Message& message) {
  return std::as_writable_bytes(std::span<Message, 1>(&message, 1));
}

/// Proves and checks for one end of the stream that `hello` names. The host seals the hello first,
/// then the opener does.
auth::ControlSeal stream_seal(const auth::Key& job, const Hello& hello,
                              const auth::ControlNonce& host_nonce, auth::Side side);

/// The opener's side, in full; fills in `hello.nonce` and `hello.keyed`. Blocks.
///
/// @param peer  how errors name the other end.
/// @return true: the stream may be used. false: the other end closed without an answer, as a busy
///         one does; trying again may help. Errors: kDenied (wrong key, other job), kTimeout,
///         kAborted (the host does not want it).
Result<bool> greet(net::TcpConnection& connection, Hello hello, const std::optional<auth::Key>& key,
                   const std::string& peer, Instant deadline);

}  // namespace sumcast::mesh
