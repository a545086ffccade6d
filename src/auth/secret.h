// Key material that does not outlive its use: every copy wipes itself when it goes.
//
// There is no comparison on purpose: comparing secrets byte by byte leaks how much of them agreed.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace sumcast::auth {

/// Overwrites `bytes` with zeros in a way the compiler may not drop.
void wipe(std::span<std::byte> bytes) noexcept;

/// `kBytes` bytes of key material, zero until filled.
template <size_t kBytes>
struct Secret {
  std::array<std::byte, kBytes> bytes{};

  ~Secret() { wipe(bytes); }
};

/// The secret of a job: what a key file holds, and what all other keys are derived from.
using Key = Secret<32>;
/// An AES-128 key for the tags of datagrams (auth/tag.h).
using DatagramKey = Secret<16>;

/// A fresh key from the operating system's randomness.
Key random_key();
/// 64 unpredictable bits, for incarnations and join cookies.
uint64_t random_u64();
/// Fills `out` with unpredictable bytes that need not stay secret: nonces.
void fill_random(std::span<std::byte> out);

}  // namespace sumcast::auth
