// From message bodies to the frames of a control connection, the same at both ends.
//
//   sealed:    [tag: 16 bytes][body: JSON]          unsealed (--insecure): [body: JSON]
//
// net/ puts a length in front. The two hellos travel unsealed, because they carry the nonces that
// the seal is made of. Before a peer has proved that it holds the key its frames may be small only.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "auth/control_seal.h"
#include "control/messages.h"
#include "net/tcp.h"

namespace sumcast::control {

/// Longest frame of a peer that is not authenticated yet.
inline constexpr uint32_t kStrangerFrameBytesMax = 4096;

/// Limits for connections whose two ends know each other. The unacknowledged time is short: a host
/// that vanishes must be noticed within the two seconds promised.
inline net::TcpOptions member_tcp_options() {
  net::TcpOptions options;
  options.frame_bytes_max = static_cast<uint32_t>(kBodyBytesMax + auth::kSealBytes);
  options.user_timeout = 1800ms;
  return options;
}

/// Turns bodies into frames and back. Default: unsealed. For one thread.
class FrameSeal {
 public:
  FrameSeal() = default;
  explicit FrameSeal(const auth::ControlSeal& seal) : seal_(seal) {}

  std::vector<std::byte> wrap(std::string_view body);
  /// The body, a view into `frame`; nothing if the seal is not the peer's next one.
  std::optional<std::string_view> unwrap(std::span<const std::byte> frame);

 private:
  std::optional<auth::ControlSeal> seal_;
};

/// 64 hex digits.
std::string nonce_text(const auth::ControlNonce& nonce);
std::optional<auth::ControlNonce> nonce_from_text(std::string_view text);

}  // namespace sumcast::control
