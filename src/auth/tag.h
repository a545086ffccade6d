// The tag of a datagram: 16 bytes that only a holder of the sender's key can make.
//
// AES-128-GMAC, that is GCM with everything as additional data and nothing encrypted: gradients
// need integrity, not secrecy, and hashing alone is the cheaper half. It does not know what a
// header contains; it takes bytes.
//
//   nonce, 12 bytes = sender, 2 | zeros, 2 | counter, 8        (network byte order)
//
// The trick is in what is *not* done per datagram. Hashing 1,456 bytes takes about 100 ns; a
// plain use of OpenSSL's EVP adds 150 ns of parameter passing around it. Two contexts, keyed once,
// avoid half of that:
//  - signing: GCM's own nonce generator steps the counter, and one call both fetches a tag and
//    arms the context for the next counter. Any other order of counters works too, only slower.
//  - verifying: one call sets nonce and expected tag; OpenSSL compares in constant time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "auth/secret.h"

struct evp_cipher_ctx_st;  // OpenSSL's EVP_CIPHER_CTX, kept out of this header.

namespace sumcast::auth {

inline constexpr size_t kTagBytes = 16;

/// Makes and checks tags under one key. For one thread; movable, not copyable.
class Tagger {
 public:
  explicit Tagger(const DatagramKey& key);

  /// Tags `header` followed by `payload`; either may be empty, neither is modified.
  ///
  /// @param sender   who signs: a rank or a shard, as the receiver will name it.
  /// @param counter  never used twice for one key and sender: a second use gives the key away.
  ///                 Consecutive values are the fast case.
  /// @param tag_out  kTagBytes bytes, owned by the caller; must not lie inside header or payload.
  void sign(uint16_t sender, uint64_t counter, std::span<const std::byte> header,
            std::span<const std::byte> payload, std::byte* tag_out);

  /// True if `tag` (kTagBytes bytes) was made by a holder of the key for exactly these bytes,
  /// sender and counter. `header_and_payload` is what both spans of `sign` were, in one piece.
  [[nodiscard]] bool verify(uint16_t sender, uint64_t counter,
                            std::span<const std::byte> header_and_payload, const std::byte* tag);

 private:
  struct ContextDeleter {
    void operator()(evp_cipher_ctx_st* context) const noexcept;
  };
  using Context = std::unique_ptr<evp_cipher_ctx_st, ContextDeleter>;

  static Context make_context(const DatagramKey& key, bool signs);
  void arm(uint16_t sender, uint64_t counter);

  Context signer_;
  Context verifier_;
  // What the signer's context is armed for: it can tag this pair without further set-up.
  uint16_t armed_sender_ = 0;
  uint64_t armed_counter_ = 0;
};

}  // namespace sumcast::auth
