// From the one secret of a job to the keys in use: each has a purpose, and none tells of another.
//
//   job key --HKDF-SHA256, info = label, 0, fields--> worker key   (incarnation, epoch, rank)
//                                                     downlink key (incarnation, epoch)
//                                                     control key  (nonces, direction)
//
// Labels end in a zero byte and fields have fixed widths in network order, so two different
// purposes never give the same info. Incarnation and epoch are part of it: a restarted job or a
// changed membership has fresh keys, hence may count its nonces from zero again.
#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "auth/secret.h"
#include "base/ids.h"

namespace sumcast::auth {

/// Which end of a control connection: the client opened it, the server accepted it.
enum class Side : uint8_t { kClient = 0, kServer = 1 };

/// What each end of a control connection contributes to its keys; random, sent in clear.
using ControlNonce = std::array<std::byte, 32>;

ControlNonce random_nonce();

/// Tags what `rank` sends to the aggregators in one membership epoch.
DatagramKey derive_worker_key(const Key& job, Incarnation incarnation, Epoch epoch, Rank rank);

/// Tags what the aggregators send: one key for all workers, so that a result is tagged once and
/// fanned out unchanged.
DatagramKey derive_downlink_key(const Key& job, Incarnation incarnation, Epoch epoch);

/// Seals the control frames that `sender` sends on the connection with these nonces.
Key derive_control_key(const Key& job, const ControlNonce& client, const ControlNonce& server,
                       Side sender);

/// HKDF with SHA-256 (RFC 5869), extract and expand. `out`: 1..8160 bytes, filled completely.
void hkdf_sha256(std::span<const std::byte> secret, std::span<const std::byte> salt,
                 std::span<const std::byte> info, std::span<std::byte> out);

}  // namespace sumcast::auth
