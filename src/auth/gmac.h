// AES-128-GMAC under one key, by one library or another: what a Tagger is made of.
//
// Both libraries make the same tags. Intel's ipsec-mb hashes three times as fast as OpenSSL 3.0
// and, called for a few bytes by a process that has just got its core back, costs 1 us where
// OpenSSL's EVP costs 3.7: it is plain functions without parameters to pass by name. OpenSSL serves
// where ipsec-mb is not packaged (other than x86-64) or the processor lacks what it needs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "auth/secret.h"
#include "wire/bytes.h"

namespace sumcast::auth {

/// The nonce of a datagram's tag (auth/tag.h) in its first kNonceBytes bytes, zeros behind.
struct alignas(16) Nonce {
  // Written whole, by one store: from smaller ones the library's one load cannot be served, and
  // waits until all stores before them, the lanes of the last result, have reached the cache.
  Nonce(uint16_t sender, uint64_t counter)
      : pair{wire::swap_to_big(uint64_t{sender} << 48 | counter >> 32),
             wire::swap_to_big(counter << 32)} {}

  const unsigned char* bytes() const { return reinterpret_cast<const unsigned char*>(&pair); }

  uint64_t pair __attribute__((vector_size(16)));
};
inline constexpr size_t kNonceBytes = 12;

/// As Tagger, whose functions these are. For one thread.
class Gmac {
 public:
  Gmac() = default;
  Gmac(const Gmac&) = delete;
  Gmac& operator=(const Gmac&) = delete;
  virtual ~Gmac() = default;

  virtual void sign(uint16_t sender, uint64_t counter, std::span<const std::byte> header,
                    std::span<const std::byte> payload, std::byte* tag_out) = 0;
  virtual bool verify(uint16_t sender, uint64_t counter,
                      std::span<const std::byte> header_and_payload, const std::byte* tag) = 0;
};

std::unique_ptr<Gmac> make_openssl_gmac(const DatagramKey& key);
/// Null where this build or this processor lacks it.
std::unique_ptr<Gmac> make_ipsec_gmac(const DatagramKey& key);

}  // namespace sumcast::auth
